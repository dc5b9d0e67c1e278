"""Rows trained side by side, and with several seeds."""

import math
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import COMMAND, CommandLine, environment, options

from transduce.errors import BadInput, TransduceError
from transduce.experiments.experiment_folder import read_result
from transduce.experiments.findings import Finding
from transduce.experiments.rows import Result, Row
from transduce.experiments.side_by_side import run_side_by_side
from transduce.system.progress import Progress, Silent

Files = tuple[Path, Path]

SMALLEST = {"N": "1", "h": "2", "vocabulary": "300", "batch_tokens": "400", "log_every": "2"}
HOW = ("--device", "cpu", "--shrink", "16", *options(SMALLEST))
ROWS = [Row(name=name, preset="base", settings={}) for name in ("a", "b", "c")]


def command(files: Files, out: Path, *more: str, steps: int = 4) -> list[str]:
    """Return a command for two small rows of Table 3."""
    rows = ("--rows", "base,D-ls0", "--steps", str(steps))
    return ["paper", "table3", *map(str, files), *rows, *HOW, *more, "--out", str(out)]


class Lines(Silent):
    """Records what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        """Record a line."""
        self.said.append(text)


def say_threads(row: Row, progress: Progress) -> None:
    progress.say(f"threads {os.environ['OMP_NUM_THREADS']}, process {os.getpid()}")


def fail_in_b(row: Row, progress: Progress) -> None:
    if row.name == "b":
        raise BadInput("b is bad")


def end_at_once(row: Row, progress: Progress) -> None:
    os._exit(9)


def wait_in_a(row: Row, progress: Progress) -> None:
    mark = Path(os.environ["MARK"])
    if row.name == "b":
        while not mark.exists():
            time.sleep(0.05)
        raise BadInput("b is bad")
    try:
        mark.touch()
        time.sleep(60)
    finally:
        mark.write_text("saved", encoding="utf-8")


def test_each_row_has_a_process_and_its_share_of_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("transduce.experiments.side_by_side.cores", lambda: 8)
    lines = Lines()
    assert run_side_by_side(say_threads, ROWS[:2], 2, lines) == []
    said = sorted(line for line in lines.said if "threads" in line)
    assert [line.partition(",")[0] for line in said] == ["a: threads 4", "b: threads 4"]
    assert len({line.rpartition(" ")[2] for line in said} | {str(os.getpid())}) == 3
    assert "OMP_NUM_THREADS" not in os.environ


def test_an_error_of_a_row_is_raised_as_it_is() -> None:
    with pytest.raises(BadInput, match="b is bad"):
        run_side_by_side(fail_in_b, ROWS[:2], 1, Silent())


def test_a_process_that_is_killed_is_named() -> None:
    with pytest.raises(TransduceError, match="that trained a ended with status 9, perhaps out of"):
        run_side_by_side(end_at_once, ROWS[:1], 2, Silent())


def test_an_error_of_a_row_stops_the_others_which_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    begin = time.monotonic()
    with pytest.raises(BadInput, match="b is bad"):
        run_side_by_side(wait_in_a, ROWS[:2], 2, Silent())
    assert time.monotonic() - begin < 50
    assert (tmp_path / "mark").read_text(encoding="utf-8") == "saved"


def test_no_row_starts_when_time_is_over() -> None:
    assert run_side_by_side(end_at_once, ROWS, 2, Silent(), lambda: False) == ROWS


def test_rows_side_by_side_learn_what_they_learn_in_turn(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    how = ("--set", "threads=1")
    together = [*COMMAND, *command(tiny_files, tmp_path / "together", *how, "--jobs", "2")]
    done = subprocess.run(together, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert "D-ls0: BLEU" in done.stderr
    turns = cli(*command(tiny_files, tmp_path / "turns", *how))
    assert turns.status == 0, turns.stderr
    for name in ("base", "D-ls0"):
        first, second = (
            read_result(tmp_path / out / name, Result) for out in ("together", "turns")
        )
        assert (first.perplexity, first.bleu) == (second.perplexity, second.bleu)


def test_a_row_with_several_seeds_has_their_mean(
    cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    out = tmp_path / "t3"
    assert cli(*command(tiny_files, out, "--seeds", "2")).status == 0
    names = ("base", "base-seed2", "D-ls0", "D-ls0-seed2")
    perplexity = {name: read_result(out / name, Result).perplexity for name in names}
    assert len(set(perplexity.values())) == 4  # seeds differ
    finding = Finding.load(out / "table3.json")
    (table,) = finding.tables
    of_base = dict(zip(table.columns, table.rows[0], strict=False))
    assert (of_base["row"], of_base["seeds"]) == ("base", "2")
    mean = math.sqrt(perplexity["base"] * perplexity["base-seed2"])
    assert float(of_base["PPL"]) == pytest.approx(mean, abs=0.006)
    assert set(finding.data["results"]) == set(names)


def test_seeds_can_be_added_later(cli: CommandLine, tiny_files: Files, tmp_path: Path) -> None:
    out = tmp_path / "t3"
    assert cli(*command(tiny_files, out)).status == 0
    held_out = (out / "references.txt").read_bytes()
    done = cli(*command(tiny_files, out, "--seeds", "2"))
    assert "2 of 4 rows are finished already" in done.stderr
    assert done.status == 0, done.stderr
    assert (out / "references.txt").read_bytes() == held_out
    tables = Finding.load(out / "table3.json").tables
    assert cli(*command(tiny_files, out, "--gather")).status == 0
    assert Finding.load(out / "table3.json").tables == tables, "they have both seeds"


def test_rows_side_by_side_stop_and_continue(tiny_files: Files, tmp_path: Path) -> None:
    """SIGTERM to the command alone ends every process; the same command continues."""
    out = tmp_path / "t3"
    arguments = [*COMMAND, *command(tiny_files, out, "--jobs", "2", steps=4000)]
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "training:" in line:
                break
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(60) == 130, rest
    assert "Traceback" not in rest
    steps = {name: list((out / name / "checkpoints").glob("step-*")) for name in ("base", "D-ls0")}
    assert any(steps.values())
    again = subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
    )
    with again as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "resuming from step" in line:
                break
        else:
            pytest.fail("no row continued")
        process.send_signal(signal.SIGTERM)
        process.stderr.read()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--jobs", "2", "--time", "5s"), "give the budget as --steps"),
        (("--seeds", "2", "--seed", "3"), "--seeds 2 with --seed 3: give one"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    change: tuple[str, ...], message: str, cli: CommandLine, tiny_files: Files, tmp_path: Path
) -> None:
    arguments = command(tiny_files, tmp_path / "t3", *change)
    if "--time" in change:
        place = arguments.index("--steps")
        del arguments[place : place + 2]
    assert message in cli(*arguments).error
    assert not (tmp_path / "t3").exists()
