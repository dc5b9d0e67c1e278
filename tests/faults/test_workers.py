"""A process that hangs ends all processes in bounded time, and is named."""

from pathlib import Path

from faults.workers import Fault, Trial
from transduce.runs.folder import checkpoints


def test_a_hanging_process_ends_all_and_the_first_saves_its_weights(
    tmp_path: Path,
) -> None:
    trial = Trial(tmp_path, 1)
    assert trial.inject_fault(Fault("hang", 1, "step", 8, 0.0), "run") == ""
    assert [checkpoint.step for checkpoint in checkpoints(trial.folder / "run")] == [5, 7]
