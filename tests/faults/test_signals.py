"""The short form of `make faults KIND=signals`."""

import signal

import pytest

from faults.fork_server import ForkServer
from faults.interruptions import Instant, Interrupter, Task, difference
from faults.signals import hang_up_under_nohup, signal_repeatedly
from faults.tally import Tally
from transduce.runs.folder import last_checkpoint


def test_signals_at_random_instants_are_obeyed_and_the_run_ends_with_the_same_bits(
    fork_server: ForkServer, uninterrupted: tuple[Task, int]
) -> None:
    count = Tally("signals", seed=2)
    signal_repeatedly(fork_server, *uninterrupted, signals=3, seed=2, count=count)
    assert count.broken == []
    assert count.tried == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_validation_is_repeated_when_the_run_resumes(
    number: signal.Signals, fork_server: ForkServer, uninterrupted: tuple[Task, int]
) -> None:
    task, _ = uninterrupted
    run = task.folder / number.name
    interrupter = Interrupter(fork_server, task)
    interrupted = interrupter.run(run, Instant(phase="validation", nth=2), number)
    assert interrupted.ended.status == 130
    assert interrupted.ended.last_line == (
        f"stopped after step 18; everything is saved in {run}: run the same command to resume"
    )
    newest = last_checkpoint(run)
    assert newest is not None
    assert (newest.step, newest.scheduled) == (18, False)  # due, but not yet validated
    assert newest.state()["validated"] == 9
    assert interrupter.run(run, None, 0).ended.status == 0
    assert difference(run, task.whole) == ""


def test_a_run_under_nohup_continues_when_the_terminal_closes(
    fork_server: ForkServer, uninterrupted: tuple[Task, int]
) -> None:
    task, _ = uninterrupted
    interrupted = hang_up_under_nohup(fork_server, task, Instant(phase="steps", seconds=0.05))
    assert interrupted.ended.status == 0
    assert difference(task.folder / "nohup", task.whole) == ""
