"""The page is measured in a real browser."""

import json
import shutil
from pathlib import Path

import pytest
from conftest import CommandLine

import browsing
from transduce.bench import hardware, page

pytest.importorskip("fastapi", reason="the web extra is not installed")


def test_visits_and_sentences_are_timed(
    learnt_run: Path, tiny_files: tuple[Path, Path], tmp_path: Path, cli: CommandLine
) -> None:
    with browsing.chromium():
        pass  # or it is skipped
    run = shutil.copytree(learnt_run, tmp_path / "en-de")
    few = ["--words", "6", "--sentences", "3", "--visits", "2"]
    result = cli("bench", "page", run, tiny_files[0], *few, "--json")
    found = json.loads(result.stdout)
    assert [len(found[name]) for name in ("painted_ms", "ready_ms", "shown_ms")] == [2, 2, 3]
    assert min(found["shown_ms"]) > 120  # which is what the page waits for another key
    assert all(0 < one < 60_000 for one in found["painted_ms"])


@pytest.mark.long
def test_a_line_that_stands_twice_is_typed_once(
    learnt_run: Path, tmp_path: Path, cli: CommandLine
) -> None:
    with browsing.chromium():
        pass  # or it is skipped
    run = shutil.copytree(learnt_run, tmp_path / "en-de")
    text = tmp_path / "text.en"
    text.write_text("a dog sees a tree.\na dog sees a tree!\na man likes a bird.\n" * 2)
    few = ["--words", "5", "--sentences", "6", "--visits", "1"]
    found = json.loads(cli("bench", "page", run, text, *few, "--json").stdout)
    assert len(found["shown_ms"]) == 2


def test_the_report_has_medians() -> None:
    machine = hardware.describe("cpu", 1, [])
    found = page.Measured(
        painted=(10.0, 20.0, 90.0),
        ready=(30.0,),
        shown=(200.0, 300.0),
        text="some",
        machine=machine,
    )
    assert [line.split()[-5:] for line in found.report().splitlines()[1:4]] == [
        ["20", "10", "to", "90", "90"],
        ["30", "30", "to", "30", "30"],
        ["250", "200", "to", "300", "300"],
    ]


def test_a_text_without_such_lines_and_a_machine_without_a_browser_are_refused(
    learnt_run: Path,
    tiny_files: tuple[Path, Path],
    cli: CommandLine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = cli("bench", "page", learnt_run, tiny_files[0], "--words", "400").error
    assert words.endswith("has no line of about 400 words to type: choose other --words")
    pytest.importorskip("playwright")
    monkeypatch.setattr(page, "NAMES", ("no-such-browser", "nor-this"))
    refused = cli("bench", "page", learnt_run, tiny_files[0], "--words", "6").error
    assert refused == "there is no browser: install no-such-browser, or any of nor-this"
