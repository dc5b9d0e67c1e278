"""The load test and the page timing measure a real service."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import environment

import browsing
import load_test

pytest.importorskip("fastapi", reason="the web extra is not installed")
TOOLS = Path(__file__).parents[2] / "tools"
LINES = ["a dog sees the man.", "every bird likes one tree!", "the fish finds a dog today."]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A file of lines, some with two sentences."""
    path = tmp_path / "text.en"
    pairs = [" ".join(pair) for pair in pairwise(LINES)]
    path.write_text("\n".join([*LINES, "", *pairs]), encoding="utf-8")
    return path


def test_a_service_is_measured_beside_translate(tiny_run: Path, text: Path) -> None:
    plan = load_test.Plan(run=tiny_run, source=str(text), clients=3, rounds=1, settings={"beam": 2})
    report = load_test.compare(plan)
    assert report["serve"]["wrong"] == 0
    assert report["serve"]["rounds"][0]["statuses"] == {"200": 5}
    assert report["serve"]["single_client"]["statuses"] == {"200": 5}
    served = report["serve"]["rounds"][0]["texts_per_second"]
    assert report["ratio"] == pytest.approx(served / report["translate"]["rounds"][0], rel=0.01)
    json.dumps(report)


@pytest.mark.long
def test_memory_is_recorded_under_sustained_load(tiny_run: Path, text: Path) -> None:
    plan = load_test.Plan(run=tiny_run, source=str(text), clients=2)
    report = load_test.endure(plan, seconds=5.5, reload_every=2)
    assert (report["wrong"], report["statuses"].keys()) == (0, {"200"})
    assert report["memory"]["end"] > 2**20
    assert 1 <= report["reloads"] <= 2


def test_a_mix_has_lines_paragraphs_and_pages() -> None:
    lines = [f"Line {number}." for number in range(40)]
    mix = load_test.mix(lines)
    assert mix == load_test.mix(lines)
    assert mix[:40] == lines
    paragraphs, pages = mix[40:60], mix[60:]
    assert len(pages) == 10
    assert all("\n" not in text and 2 <= text.count(".") <= 8 for text in paragraphs)
    assert all(set(text.split("\n")) <= set(lines) for text in pages)


def test_growth_of_memory_is_that_of_the_second_half() -> None:
    memory = load_test.memory_to_json([10, 20, 30, 40, 50, 50, 50, 50, 50, 50])
    assert (memory["start"], memory["middle"], memory["end"]) == (10, 50, 50)
    assert memory["bytes_per_second_in_second_half"] == 0


def test_the_page_is_timed_in_a_browser(learnt_run: Path, tmp_path: Path) -> None:
    with browsing.chromium():
        pass  # skips without a browser
    text = tmp_path / "text.en"
    text.write_text("a dog sees a tree.\na dog sees a tree!\na man likes a bird.\n" * 2)
    few = ["--words", "5", "--sentences", "6", "--visits", "2"]
    done = subprocess.run(
        [sys.executable, str(TOOLS / "page_timing.py"), str(learnt_run), str(text), *few],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert len(report["ready"]["all"]) == 2
    assert len(report["last_key_to_translation"]["all"]) == 2  # lines typed alike are typed once
    assert report["last_key_to_translation"]["lowest"] > 120  # the page's delay after a key
    assert 0 < report["first_paint"]["median"] < 60_000
