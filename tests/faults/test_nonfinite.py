"""Non-finite values are skipped or end the run; they are never saved."""

from pathlib import Path
from random import Random

import pytest

from faults import nonfinite


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> nonfinite.Trial:
    return nonfinite.Trial(tmp_path_factory.mktemp("nonfinite"), 1)


@pytest.mark.parametrize("kind", nonfinite.SKIPPED)
def test_a_skipped_update_changes_nothing_and_is_counted(kind: str, trial: nonfinite.Trial) -> None:
    draw = Random(kind)
    assert trial.skip(kind, {3, 4, 12}, draw, kind) == ""


@pytest.mark.parametrize("kind", nonfinite.ENDED)
def test_other_nonfinite_values_end_the_run_and_it_resumes_before_them(
    kind: str, trial: nonfinite.Trial
) -> None:
    assert trial.end(kind, {6}, Random(kind), kind) == ""


def test_a_huge_learning_rate_saves_only_finite_values(trial: nonfinite.Trial) -> None:
    assert trial.diverge("rate", set(), Random(1), "race") == ""


@pytest.mark.long
def test_the_long_form_runs_every_kind(tmp_path: Path) -> None:
    counts = nonfinite.inject(3, 1, tmp_path)
    assert [count.broken for count in counts] == [[], [], []]
    assert sum(count.tried for count in counts) == 3
