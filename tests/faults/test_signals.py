"""The short form of `make faults KIND=signals`."""

import signal

import pytest

from faults.fork_server import ForkServer
from faults.interruptions import Instant, Striker, Task, difference
from faults.signals import ask_again_and_again, goes_on_under_nohup
from faults.tally import Tally
from transduce.runs.folder import last_checkpoint


def test_signals_at_random_instants_are_obeyed_and_the_run_ends_with_the_same_bits(
    warm: ForkServer, undisturbed: tuple[Task, int]
) -> None:
    count = Tally("asked", seed=2)
    ask_again_and_again(warm, *undisturbed, asks=3, seed=2, count=count)
    assert count.broken == []
    assert count.tried == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_validation_is_given_up_and_made_when_the_run_goes_on(
    number: signal.Signals, warm: ForkServer, undisturbed: tuple[Task, int]
) -> None:
    task, _ = undisturbed
    run = task.folder / number.name
    striker = Striker(warm, task)
    struck = striker.run(run, Instant(phase="validation", nth=2), number)
    assert struck.ended.status == 130
    assert struck.ended.last_line == (
        f"stopped after step 18; everything is saved in {run}: the same command goes on from here"
    )
    newest = last_checkpoint(run)
    assert newest is not None
    assert (newest.step, newest.scheduled) == (18, False)  # due, but not yet validated
    assert newest.state()["validated"] == 9
    assert striker.run(run, None, 0).ended.status == 0
    assert difference(run, task.whole) == ""


def test_what_nohup_has_started_goes_on_when_the_terminal_hangs_up(
    warm: ForkServer, undisturbed: tuple[Task, int]
) -> None:
    task, _ = undisturbed
    struck = goes_on_under_nohup(warm, task, Instant(phase="steps", seconds=0.05))
    assert struck.ended.status == 0
    assert difference(task.folder / "nohup", task.whole) == ""
