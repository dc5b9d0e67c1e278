"""What is no number is refused or ends the run, by a stated rule; nothing of it is ever saved."""

from pathlib import Path
from random import Random

import pytest

from faults import nonfinite


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> nonfinite.Trial:
    return nonfinite.Trial(tmp_path_factory.mktemp("nonfinite"), 1)


@pytest.mark.parametrize("kind", nonfinite.REFUSED)
def test_a_refused_update_is_as_if_it_had_never_been_and_is_counted(
    kind: str, trial: nonfinite.Trial
) -> None:
    draw = Random(kind)
    assert trial.refuse(kind, {3, 4, 12}, draw, kind) == ""


@pytest.mark.parametrize("kind", nonfinite.ENDED)
def test_what_cannot_be_refused_ends_the_run_which_goes_on_before_it(
    kind: str, trial: nonfinite.Trial
) -> None:
    assert trial.end(kind, {6}, Random(kind), kind) == ""


def test_a_rate_beyond_all_measure_saves_nothing_but_numbers(trial: nonfinite.Trial) -> None:
    assert trial.race("rate", set(), Random(1), "race") == ""


@pytest.mark.long
def test_the_long_form_counts_all_of_them(tmp_path: Path) -> None:
    counts = nonfinite.inject(3, 1, tmp_path)
    assert [count.broken for count in counts] == [[], [], []]
    assert sum(count.tried for count in counts) == 3
