"""A service that is asked for more than it can do answers what it can, rightly, and recovers."""

import asyncio
import itertools
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_pairs

from faults import overload as trial
from serving import Scripted, listening, scripted, until
from transduce.bench.load import Load, Texts, Wrong
from transduce.bench.overload import crowd_of, overload
from transduce.bench.served import Memory, Overload
from transduce.bench.serving import Plan
from transduce.config import SearchConfig
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.served import Served
from transduce.translation.translator import Translator

PACE = 0.05  # seconds for a batch of 8: 160 sentences in a second
LINES = list(dict.fromkeys(left for left, _ in tiny_pairs(400)))


class Slow(Scripted):
    """An engine that takes its time to write its source again."""

    def search(self, *args: Any) -> Iterator[Any]:
        time.sleep(PACE)
        yield from super().search(*args)


def slow(run: Path) -> Served:
    served, _ = scripted(run)
    known = served.translator
    translator = Translator(Slow(), known.codec, known.config, known.weights)
    return replace(served, translator=translator)


def test_twice_of_what_it_can_take_is_answered_rightly_or_put_off(tiny_run: Path) -> None:
    app = create_app([slow(tiny_run)], limits=Limits(wait=0.4))
    texts = Texts(LINES, LINES, {})
    with listening(app) as (_, port):
        crowd = asyncio.run(
            crowd_of(
                port, texts, itertools.cycle(range(len(LINES))), rate=320, seconds=2, normal=60
            )
        )
        service = app.state.service
        until(lambda: (service.held, service.asking) == (0, 0))
    load = crowd.load
    assert load.wrong == 0
    assert load.answers.keys() == {"200", "503"}
    assert load.shed == load.answers["503"] > 0
    assert load.clients < len(LINES)  # nobody waits whose turn is too far away
    assert crowd.recovery is not None


@pytest.mark.long
def test_the_bench_of_overload_measures_a_real_service(learnt_run: Path, tmp_path: Path) -> None:
    text = tmp_path / "asked.en"
    text.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    found = overload(Plan(run=learnt_run, source=str(text), clients=8), seconds=2)
    assert found.load.wrong == 0, found.load.first_wrong
    assert found.load.answers["200"] > 0
    assert found.capacity > 0
    assert min(found.memory.sizes) > 2**20
    said = found.to_json()
    assert said["texts_per_second"]["answered"] > 0
    assert said["wrong"] == 0
    for words in ("can be answered", "told when to come again", "for the clients"):
        assert words in found.report()


def measured(**changes: Any) -> Overload:
    """Return what a good service comes to, but for what is changed."""
    load = Load(
        clients=9,
        seconds=10.0,
        latencies=array("d", [0.5]),
        answers=Counter({"200": 1000, "503": 1000}),
        shed=1000,
        client_seconds=1.0,
        service_seconds=10.0,
    )
    before = Load(clients=4, seconds=1.0, answers=Counter({"200": 100}))
    good = Overload(
        path="torch on cpu",
        before=before,
        alone=replace(before, latencies=array("d", [0.1])),
        load=replace(load, **changes.pop("load", {})),
        offered=200.0,
        recovery=2.0,
        memory=Memory((0.0, 1.0, 2.0), (2**28, 2**28, 2**28)),
        search=SearchConfig(),
        text="a text",
        machine={},
    )
    return replace(good, **changes)


def broken(found: Overload) -> list[str]:
    """Return the promises that did not hold."""
    return [one.promise.partition(":")[0] for one in trial.counted(found, 1) if one.broken]


def test_each_promise_that_is_broken_is_counted_as_such() -> None:
    assert broken(measured()) == []
    wrong = {"wrong": 2, "first_wrong": Wrong("a", "b", "c")}
    assert broken(measured(load=wrong)) == ["overload-right"]
    assert broken(measured(load={"shed": 999})) == ["overload-shed"]
    failed = Counter({"200": 1000, "503": 1000, "500": 1})
    assert broken(measured(load={"answers": failed})) == ["overload-shed"]
    assert broken(measured(load={"late": 300})) == ["overload-limit"]
    assert broken(measured(recovery=None)) == ["overload-recovery"]
    assert broken(measured(recovery=trial.RECOVERED + 1)) == ["overload-recovery"]
    grown = Memory((0.0, 1.0, 2.0), (2**28, 2**28, 2**29))
    assert broken(measured(memory=grown)) == ["overload-memory"]
