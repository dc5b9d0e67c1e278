"""The training log: means since the last record, also across interruptions."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from transduce.corpus.updates import DataPosition
from transduce.errors import BadRun
from transduce.runs.state import State, Window
from transduce.training.distributed.processes import Processes
from transduce.training.log import Log, NonFinite, require_finite

LOSSES = [(8.0, 6.0, 2), (9.0, 3.0, 3), (4.0, 2.0, 1), (12.0, 8.0, 4)]  # both sums, tokens


class LateEvent:
    """A CUDA event that completes when it is waited for."""

    def __init__(self) -> None:
        self.done = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.done = True


def open_log(run: Path, state: State, messages: list[str] | None = None) -> Log:
    messages = [] if messages is None else messages
    counts = torch.zeros(6, dtype=torch.float64)
    return Log(
        *(run, state, counts, Processes(), messages.append),
        validated=state.validated,
    )


def count(log: Log, state: State, smoothed: float, nll: float, tokens: int) -> None:
    """Count the losses of one step, as training does."""
    log.counts[:2] += torch.tensor([smoothed, nll], dtype=torch.float64)
    state.step += 1
    state.window.tokens += tokens
    state.window.seconds += 0.5
    state.seconds += 0.5


def recorded(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def show_nothing(part: float, note: str) -> None:
    """Show nothing."""


def test_a_record_has_the_means_since_the_last_one(tmp_path: Path) -> None:
    state, shown = State(position=DataPosition(3, 1)), []
    with open_log(tmp_path, state) as log:
        for number, losses in enumerate(LOSSES):
            count(log, state, *losses)
            if number % 2:
                log.add(state, 0.25, 0.5, lambda part, note: shown.append((part, note)))
    first, second = recorded(tmp_path)
    assert first == {
        "step": 2,
        "epoch": 3,
        "loss": 17 / 5,
        "nll": 9 / 5,
        "perplexity": pytest.approx(math.exp(9 / 5)),
        "learning_rate": 0.25,
        "target_tokens_per_second": 5.0,
        "seconds": 1.0,
    }
    assert (second["loss"], second["nll"], second["seconds"]) == (16 / 5, 10 / 5, 2.0)
    assert second["target_tokens_per_second"] == 5.0
    assert state.window == Window()
    assert [part for part, _ in shown] == [0.5, 0.5]
    assert shown[0][1].startswith("step 2, loss 3.40, ppl 6.05, lr 2.5e-01, 5 tok/s, ")


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_the_means_are_the_same_if_the_run_was_stopped_between_records(
    tmp_path: Path, stop: int
) -> None:
    state = State()
    with open_log(tmp_path, state) as log:
        for losses in LOSSES[:stop]:
            count(log, state, *losses)
        log.save_window(state)
        saved = json.loads(json.dumps(state.to_json()))
        count(log, state, 1e6, 1e6, 1)  # lost with the process
    state = State.from_json(saved)
    with open_log(tmp_path, state) as log:
        for losses in LOSSES[stop:]:
            count(log, state, *losses)
        log.add(state, 0.25, 1.0, show_nothing)
    (record,) = recorded(tmp_path)
    assert (record["step"], record["loss"], record["nll"]) == (4, 33 / 10, 19 / 10)
    assert record["target_tokens_per_second"] == 5.0


def test_records_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    state = State()
    with open_log(tmp_path, state) as log:
        for losses in LOSSES[:2]:
            count(log, state, *losses)
            log.add(state, 0.25, 0.5, show_nothing)
    with open_log(tmp_path, State(step=1)):
        assert [record["step"] for record in recorded(tmp_path)] == [1]


def test_logging_does_not_wait_for_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, late = State(), LateEvent()
    with open_log(tmp_path, state) as log:
        monkeypatch.setattr(log, "_fetch", lambda: (log.counts.clone(), late))
        count(log, state, *LOSSES[0])
        log.add(state, 0.25, 0.5, show_nothing)
        log.poll(show_nothing)
        assert recorded(tmp_path) == []
        count(log, state, *LOSSES[1])  # belongs to the next window
        late.done = True
        log.poll(show_nothing)
        assert [(record["step"], record["loss"]) for record in recorded(tmp_path)] == [(1, 4.0)]
        log.poll(show_nothing)
        assert len(recorded(tmp_path)) == 1


def test_a_record_waits_for_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = State()
    with open_log(tmp_path, state) as log:
        monkeypatch.setattr(log, "_fetch", lambda: (log.counts.clone(), LateEvent()))
        for losses in LOSSES[:2]:
            count(log, state, *losses)
            log.add(state, 0.25, 0.5, show_nothing)
        assert [record["step"] for record in recorded(tmp_path)] == [1]
        log.wait(show_nothing)
    assert [(record["step"], record["loss"]) for record in recorded(tmp_path)] == [
        (1, 4.0),
        (2, 3.0),
    ]


def test_saving_waits_for_a_pending_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State()
    with open_log(tmp_path, state) as log:
        monkeypatch.setattr(log, "_fetch", lambda: (log.counts.clone(), LateEvent()))
        count(log, state, *LOSSES[0])
        log.add(state, 0.25, 0.5, show_nothing)
        log.save_window(state)
        assert [record["step"] for record in recorded(tmp_path)] == [1]


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_ends_the_run_when_it_is_logged_or_saved(
    tmp_path: Path, loss: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = r"^the loss is not finite \(NaN or infinity\) after step 1$"
    for run, late in (("a", False), ("b", True)):
        (tmp_path / run).mkdir()
        state = State()
        with open_log(tmp_path / run, state) as log:
            if late:
                monkeypatch.setattr(
                    log, "_fetch", lambda log=log: (log.counts.clone(), LateEvent())
                )
            count(log, state, loss, 1.0, 1)
            with pytest.raises(NonFinite, match=message):
                log.save_window(state)
            with pytest.raises(NonFinite, match=message):  # noqa: PT012
                log.add(state, 0.25, 0.5, show_nothing)
                log.save_window(state)  # raises here if the event is late
        assert recorded(tmp_path / run) == []


def test_a_finite_value_does_not_end_the_run() -> None:
    require_finite(1e300, "the loss", 1)
    with pytest.raises(NonFinite, match=r"^the loss is not finite .* after step 1,234$"):
        require_finite(math.nan, "the loss", 1234)


def test_skipped_updates_do_not_count_and_are_reported(tmp_path: Path) -> None:
    state, messages = State(), list[str]()
    with open_log(tmp_path, state, messages) as log:
        count(log, state, *LOSSES[0])
        log.counts[3:] += torch.tensor([1.0, 5.0, 1.0])
        state.window.tokens += 5
        log.save_window(state)
    state = State.from_json(json.loads(json.dumps(state.to_json())))
    assert (state.window.skipped, state.window.skipped_tokens, state.window.in_a_row) == (1, 5, 1)
    with open_log(tmp_path, state, messages) as log:
        log.add(state, 0.25, 0.5, show_nothing)
        assert log.counts.tolist() == [0, 0, 0, 0, 0, 1]
    (record,) = recorded(tmp_path)
    assert (record["loss"], record["nll"], record["skipped"]) == (4.0, 3.0, 1)
    assert messages == ["step 1: 1 update since the last record skipped: non-finite gradient"]


def test_a_window_of_skipped_updates_only_has_no_loss(tmp_path: Path) -> None:
    state, shown = State(step=3, window=Window(tokens=7, skipped=2, skipped_tokens=7)), list[str]()
    with open_log(tmp_path, state) as log:
        log.add(state, 0.25, 0.5, lambda part, note: shown.append(note))
    (record,) = recorded(tmp_path)
    assert record["skipped"] == 2
    assert "loss" not in record
    assert shown[0].startswith("step 3, no loss, lr ")


def test_ten_skipped_updates_in_a_row_end_the_run(tmp_path: Path) -> None:
    state = State(step=14, window=Window(tokens=1, skipped=9, in_a_row=9))
    with open_log(tmp_path, state) as log:
        log.save_window(state)
        state.step = 15
        log.counts[-1] += 1
        message = r"^the gradient of the last 10 updates is not finite .* after step 15$"
        with pytest.raises(NonFinite, match=message) as caught:
            log.save_window(state)
    assert (caught.value.step, caught.value.in_a_row) == (15, 10)


def test_validations_are_recorded_and_other_processes_record_nothing(tmp_path: Path) -> None:
    with open_log(tmp_path, State()) as log:
        log.add_validation(7, None, valid_loss=1.5)
    assert recorded(tmp_path) == [{"step": 7, "valid_loss": 1.5}]
    other = tmp_path / "other"
    state, sums = State(window=Window(3, 5.0, 4.0)), torch.zeros(6, dtype=torch.float64)
    none = (Processes(1, 2), print)
    with Log(other, state, sums, *none) as log:
        log.add_validation(7, None, valid_loss=1.5)
    assert not other.exists()
    assert sums.tolist() == [0.0] * 6  # only the first process continues the window


@pytest.mark.parametrize(
    "change", [{"window": {"seconds": 1, "x": 2}}, {"place": {"epoch": 1}, "window": 3}]
)
def test_a_state_of_other_types_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadRun, match="damaged"):
        State.from_json(State().to_json() | change)
