"""A process that hangs ends all of them in bounded time, and it is said which one it was."""

from pathlib import Path

from faults.workers import Fault, Trial
from transduce.runs.folder import checkpoints


def test_a_process_that_hangs_ends_all_and_what_the_first_has_learned_is_saved(
    tmp_path: Path,
) -> None:
    trial = Trial(tmp_path, 1)
    assert trial.strike(Fault("hang", 1, "step", 8, 0.0), "run") == ""
    assert [one.step for one in checkpoints(trial.folder / "run")] == [5, 7]
