"""An overloaded service answers what it can, correctly, and recovers."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_pairs

from faults import overload as trial
from load_clients import Load, Texts, open_loop
from load_test import Overload, Plan, overload
from serving import Scripted, listening, scripted, until
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.models import ServedModel
from transduce.translation.translator import Translator

PACE = 0.05  # seconds for a batch of 8: 160 sentences per second
LINES = list(dict.fromkeys(left for left, _ in tiny_pairs(400)))


class Slow(Scripted):
    """An engine that sleeps, then returns its source."""

    def search(self, *args: Any) -> Iterator[Any]:
        time.sleep(PACE)
        yield from super().search(*args)


def slow(run: Path) -> ServedModel:
    served, _ = scripted(run)
    fast = served.translator
    return replace(served, translator=Translator(Slow(), fast.codec, fast.config, fast.weights))


def test_at_twice_its_capacity_a_service_answers_correctly_or_sheds(tiny_run: Path) -> None:
    app = create_app([slow(tiny_run)], limits=Limits(wait=0.4))
    order = itertools.cycle(range(len(LINES)))
    with listening(app) as (_, port):
        texts = Texts(LINES, LINES, {})
        load, recovery = open_loop(port, texts, order, rate=320, seconds=2, normal=60, seed=1)
        service = app.state.service
        until(lambda: (service.sentences, service.requests) == (0, 0))
    assert load.wrong == 0
    assert load.statuses.keys() == {"200", "503"}
    assert load.shed == load.statuses["503"] > 0
    assert load.most_at_once < len(LINES)  # requests that would wait too long are shed at once
    assert recovery is not None


@pytest.mark.long
def test_the_overload_test_measures_a_real_service(learnt_run: Path, tmp_path: Path) -> None:
    text = tmp_path / "source.en"
    text.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    measured = overload(Plan(run=learnt_run, source=str(text), clients=8), seconds=2)
    assert measured.load.wrong == 0, measured.load.first_wrong
    assert measured.load.speed > 0
    assert measured.before.speed > 0
    assert min(measured.memory) > 2**20


def good(**changes: Any) -> Overload:
    """Return measurements of a good service, with changes."""
    load = Load(
        seconds=10.0, statuses=Counter({"200": 1000, "503": 1000}), shed=1000, client_seconds=1.0
    )
    measured = Overload(
        before=Load(seconds=1.0, statuses=Counter({"200": 100})),
        load=replace(load, **changes.pop("load", {})),
        offered=200.0,
        recovery=2.0,
        memory=[2**28, 2**28, 2**28],
        engine="torch on cpu",
    )
    return measured._replace(**changes)


def broken(measured: Overload) -> list[str]:
    """Return the promises that did not hold."""
    return [count.promise.partition(":")[0] for count in trial.judge(measured, 1) if count.broken]


def test_each_broken_promise_is_counted() -> None:
    assert broken(good()) == []
    assert broken(good(load={"wrong": 2})) == ["overload-right"]
    assert broken(good(load={"shed": 999})) == ["overload-shed"]
    failed = Counter({"200": 1000, "503": 1000, "500": 1})
    assert broken(good(load={"statuses": failed})) == ["overload-shed"]
    assert broken(good(load={"late": 300})) == ["overload-limit"]
    assert broken(good(recovery=None)) == ["overload-recovery"]
    assert broken(good(recovery=trial.MAX_RECOVERY + 1)) == ["overload-recovery"]
    assert broken(good(memory=[2**28, 2**28, 2**29])) == ["overload-memory"]
