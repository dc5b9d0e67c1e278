"""`transduce data check` and `data clean` on files."""

import json
import lzma
import os
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import CommandLine
from small_corpora import make_pairs

CLEAN = [("The hotel is closed.", "Das Hotel ist zu."), ("Two dogs run.", "Zwei Hunde rennen.")]


@pytest.fixture
def dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a dirty text in two files: 2 of 6 pairs are clean."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.en").write_bytes(
        b"The hotel is closed.\r\nThe hotel is closed.\r\nA \xff byte\n\nCosts 100 euros\n"
        b"  Two dogs\xc2\xa0run.\t\n"
    )
    (tmp_path / "a.de").write_bytes(
        b"Das Hotel ist zu.\nDas Hotel ist zu.\nEin Byte\nLeer\nKostet 200 Euro\nZwei Hunde rennen."
    )
    return tmp_path


def test_kept_pairs_are_written_byte_for_byte(cli: CommandLine, dirty: Path) -> None:
    done = cli("data", "clean", "a.en", "a.de", "--out", "b.en", "b.de", "--removed", "no.tsv")
    assert done.status == 0, done.stderr
    assert (dirty / "b.en").read_bytes() == b"The hotel is closed.\r\n  Two dogs\xc2\xa0run.\t\n"
    assert (dirty / "b.de").read_text() == "Das Hotel ist zu.\nZwei Hunde rennen.\n"
    assert (dirty / "no.tsv").read_bytes().splitlines() == [
        b"duplicate\t2\tThe hotel is closed.\tDas Hotel ist zu.",
        b"encoding\t3\tA \xff byte\tEin Byte",
        b"blank\t4\t\tLeer",
        b"numbers\t5\tCosts 100 euros\tKostet 200 Euro",
    ]
    assert "kept            2      33.33%" in done.stdout
    assert "encoding, pair 3: A \\udcff byte ||| Ein Byte" in done.stdout


def test_json_and_the_page_have_the_same_counts(cli: CommandLine, dirty: Path) -> None:
    done = cli("data", "check", "a.en", "a.de", "--json", "--report", "r.html")
    found = json.loads(done.stdout)
    assert (found["pairs"], found["kept"], found["languages"]) == (6, 2, ["en", "de"])
    assert {rule: n for rule, n in found["removed"].items() if n} == {
        "duplicate": 1,
        "encoding": 1,
        "blank": 1,
        "numbers": 1,
    }
    assert sum(found["histograms"]["ratio_log2_tenths"]) == 6
    page = (dirty / "r.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    assert "http" not in page  # no other file is needed
    HTMLParser().feed(page)
    assert cli("data", "check", "a.en", "a.de", "--report", "r.html").status == 0  # ours
    assert "was not made by" in cli("data", "check", "a.en", "a.de", "--report", "a.en").error


def test_markup_in_a_text_is_not_markup_in_the_page(cli: CommandLine, tmp_path: Path) -> None:
    text = tmp_path / "x.en-de.tsv"
    text.write_text("<script>alert(1)</script> a\t<b>&amp;\x1b[31m\n", encoding="utf-8")
    assert cli("data", "check", text, "--report", tmp_path / "r.html").status == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_other_formats_and_columns_are_cleaned(cli: CommandLine, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(
        "id,English,German\n1,The hotel is closed.,Das Hotel ist zu.\n2,Only,\n", encoding="utf-8"
    )
    out, test = tmp_path / "out.tsv", tmp_path / "test.tsv.xz"
    options = ["--columns", "English,German", "--languages", "en-de", "--workers", "1"]
    done = cli("data", "clean", table, "--out-tsv", out, *options)
    assert done.status == 0, done.stderr
    assert out.read_text(encoding="utf-8") == "The hotel is closed.\tDas Hotel ist zu.\n"
    with lzma.open(test, "wt", encoding="utf-8") as file:
        file.write("The hotel is closed.\tDer Gasthof ist zu.\n")
    found = cli("data", "check", out, "--against", test, "--json", "--rules", "overlap").stdout
    assert json.loads(found)["removed"] == {"overlap": 1}
    unknown = cli("data", "check", out)
    assert "the languages are unknown, so they are not checked" in unknown.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "expected the clean text as --out SOURCE TARGET or as --out-tsv FILE"),
        (["--out", "a.en", "new.de"], "a.en exists already: choose a new name, or delete it"),
        (["--out-tsv", "-"], "- is no name for a file: outputs appear when they are complete"),
        (["--out", "b.en", "b.en"], "an output is named twice"),
        (["--out-tsv", "b.tsv.gz"], "would not be compressed: choose a name without .gz"),
        (["--out-tsv", "b.tsv", "--rules", "copi"], "there is no rule 'copi'"),
        (["--out-tsv", "b.tsv", "--max-ratio", "0"], "--max-ratio 0.0: expected a number"),
        (["--out-tsv", "b.tsv", "--columns", "a"], "--columns a: expected two"),
        (["--out-tsv", "b.tsv"], "pair 6 has a tab: expected two files for --out"),
        (["--out", "b.en", "b.de", "--against", "none"], "none does not exist"),
    ],
)
def test_wrong_options_are_refused_and_nothing_is_written(
    options: list[str], message: str, cli: CommandLine, dirty: Path
) -> None:
    assert message in cli("data", "clean", "a.en", "a.de", *options).error
    assert sorted(path.name for path in dirty.iterdir()) == ["a.de", "a.en"]


def test_a_mismatch_of_lines_leaves_no_output(cli: CommandLine, dirty: Path) -> None:
    (dirty / "a.de").write_text("Eins\n", encoding="utf-8")
    done = cli("data", "clean", "a.en", "a.de", "--out", "b.en", "b.de")
    assert "a.en has 6 lines but a.de has 1" in done.error
    assert sorted(path.name for path in dirty.iterdir()) == ["a.de", "a.en"]


@pytest.mark.skipif(os.name == "nt", reason="signals between processes")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stop_leaves_no_output_and_no_process(number: int, tmp_path: Path) -> None:
    lines = "".join(f"{source}\t{target}\n" for source, target in make_pairs(500))
    quick = (  # processes start after the first 50 pairs
        "import sys; from transduce.cleaning import checking as c; c.BLOCK, c.INLINE = 50, 1\n"
        "from transduce.cli import main; main()"
    )
    command = ["data", "clean", "-", "--out-tsv", "b.tsv", "--languages", "en-de"]
    with subprocess.Popen(
        [sys.executable, "-c", quick, *command, "--workers", "2"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(lines.encode())
        process.stdin.flush()  # it waits for more
        deadline = time.monotonic() + 60
        while not (children := children_of(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert children
        process.send_signal(number)
        process.stdin.close()
        errors = process.stderr.read()
        assert process.wait(60) in (130, -9)
    assert b"stopped: nothing was written" in errors or number == signal.SIGKILL
    assert b"Traceback" not in errors
    assert not (tmp_path / "b.tsv").exists()
    while any(map(is_running, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, children))


def children_of(process: int) -> list[int]:
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def is_running(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False
