"""Paired tests equal those of the sacrebleu command."""

import contextlib
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from scored_lines import noisy

from transduce.errors import BadInput, BadSetting
from transduce.evaluation import significance as comparing
from transduce.evaluation.scores import (
    Score,
    bleu,
    paper_bleu,
    score,
)
from transduce.system import progress
from transduce.system.progress import Advance, Silent


def score_one(name: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    (result,) = score(hypotheses, references, metrics=[name])
    return result


@pytest.mark.parametrize("call", [score, bleu, paper_bleu])
def test_inputs_that_are_not_parallel_lines_are_refused(call: object) -> None:
    assert callable(call)
    with pytest.raises(BadInput, match=r"3 translations but 2 references: line n of one"):
        call(["a", "b", "c"], ["a", "b"])
    with pytest.raises(BadInput, match="nothing to score"):
        call([], [])
    with pytest.raises(BadInput, match="lists of lines to score, found one text"):
        call("a text", "a test")
    with pytest.raises(BadInput, match="lists of lines to score, found one text"):
        call(["a text"], "a test")
    with pytest.raises(BadInput, match="line 1 to score is None: expected text"):
        call(["a", None], ["a", "b"])
    with pytest.raises(BadInput, match="line 0 to score is 3: expected text"):
        call(["a", "b"], [3, "b"])
    with pytest.raises(BadInput, match="1 translations but 2 references"):
        call(["a"], [["a"], ["a", "b"]])


class Recorder(Silent):
    """Records the progress of each task."""

    def __init__(self) -> None:
        self.done: dict[str, int] = {}

    @contextlib.contextmanager
    def track(self, what: str, total: int | None, unit: str) -> Iterator[Advance]:
        def advance(units: int) -> None:
            self.done[what] = self.done.get(what, 0) + units

        yield advance
        assert self.done[what] == total


def test_work_of_more_than_two_seconds_is_shown_and_shorter_work_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hypotheses, references = noisy(50)
    names = ("BLEU", "95% interval of BLEU")
    assert progress.SLOW_AFTER == 2
    for seconds, expected in ((2, {}), (0, dict(zip(names, (50, 40), strict=True)))):
        monkeypatch.setattr(progress, "SLOW_AFTER", seconds)
        recorder = Recorder()
        score(hypotheses, references, metrics=["bleu"], confidence=40, progress=recorder)
        assert recorder.done == expected
    systems = {"a": hypotheses, "b": references}
    comparing.compare(systems, references, metrics=["bleu"], samples=40, progress=recorder)
    assert recorder.done["comparing by BLEU"] == 100


def write_systems(folder: Path, systems: Mapping[str, Sequence[str]]) -> list[str]:
    for name, lines in systems.items():
        folder.joinpath(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return list(systems)


def of_sacrebleu(folder: Path, *arguments: str) -> dict[str, list[list[float]]]:
    """Return the numbers of each metric and system that sacrebleu's command prints."""
    # Its JSON fails on chrF and TER with NumPy 2, so its LaTeX is read.
    command = [sys.executable, "-m", "sacrebleu", "--format", "latex", "--width", "6", "--no-color"]
    done = subprocess.run(
        [*command, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    rows = [line.split("&") for line in done.stdout.splitlines() if "&" in line]
    (_, *names), *systems = rows
    return {
        name.split()[0]: [
            [float(number) for number in re.findall(r"\d+\.\d+", row[column])] for row in systems
        ]
        for column, name in enumerate(names, start=1)
    }


@pytest.mark.parametrize("test", ["bs", "ar"])
@pytest.mark.parametrize("several", [False, True], ids=["one reference", "two references"])
def test_a_paired_test_gives_what_the_command_sacrebleu_prints(
    test: comparing.Test, several: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    baseline, reference = noisy(80)
    draw = random.Random(2)
    better = [  # most lines differ, because sacrebleu leaves out trials with equal differences
        " ".join(
            right if draw.random() < 0.3 else word
            for word, right in zip(line.split(), reference[number].split(), strict=True)
        )
        for number, line in enumerate(baseline)
    ]
    other = [" ".join(draw.sample(line.split(), len(line.split()))) for line in reference]
    references = [reference, other][: 1 + several]
    systems = {"base.de": baseline, "better.de": better, "other.de": other}
    write_systems(tmp_path, systems | {f"ref{i}.de": lines for i, lines in enumerate(references)})
    files = [f"ref{i}.de" for i in range(len(references))]
    samples = ("--paired-bs-n", "100") if test == "bs" else ("--paired-ar-n", "200")
    theirs = of_sacrebleu(
        tmp_path, *files, "-i", *systems, f"--paired-{test}", *samples, "-m", "bleu", "chrf", "ter"
    )
    metrics = ("bleu", "chrf", "ter")
    count = int(samples[1])
    ours = comparing.compare(systems, references, metrics=metrics, test=test, samples=count)
    both = comparing.compare(systems, references, metrics=metrics, samples=count)
    assert [comparison.name for comparison in ours] == ["BLEU", "chrF2", "TER"]
    for comparison in ours:
        assert f"|{test}:{samples[1]}|seed:12345|" in comparison.signature
        for system, expected in zip(comparison.systems, theirs[comparison.name], strict=True):
            found = [system.value, system.mean, system.interval, system.p]
            numbers = [number for number in found if number is not None]
            assert numbers == pytest.approx(expected, abs=6e-5), (
                comparison.name,
                system.system,
            )
        assert [system.p is None for system in comparison.systems] == [True, False, False]
    assert ours[0].systems[2].significant
    for comparison, alone in zip(both, ours, strict=True):
        for system, single in zip(comparison.systems, alone.systems, strict=True):
            assert getattr(system, f"p_{test}") == single.p


def test_a_comparison_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(BadInput, match="there are 1 systems to compare: expected two or more"):
        comparing.compare({"a": ["x"]}, ["x"])
    with pytest.raises(BadInput, match="2 translations but 1 references"):
        comparing.compare({"a": ["x"], "b": ["x", "y"]}, ["x"])
    for samples in (39, 10**11):
        with pytest.raises(BadSetting, match=f"samples = {samples}: expected at least 40"):
            comparing.compare({"a": ["x"], "b": ["x"]}, ["x"], samples=samples)
    with pytest.raises(BadSetting, match="test = 'paired': expected 'bs', 'ar' or 'both'"):
        comparing.compare({"a": ["x"], "b": ["x"]}, ["x"], test="paired")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="the system b mixes lines and lists of lines"):
        comparing.compare({"a": ["x"], "b": ["x", ["x"]]}, ["x"])


def test_few_lines_can_be_compared() -> None:
    for comparison in comparing.compare({"a": ["x", ""], "b": ["z", ""]}, ["x", ""], samples=40):
        assert [0 <= system.value <= 100 for system in comparison.systems] == [True, True]
