"""The page that shows runs, in a real browser: live, compared, by keyboard, small and dark."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from browsing import PHONE, opened
from fake_runs import SOURCES, append, samples, training, validation, write_run
from transduce.runs.locks import locked_run
from transduce.serving.app import create_app
from transduce.serving.limits import Limits
from transduce.serving.server import Server, bind, url_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def watching(*runs: Path) -> Iterator[str]:
    """Serve the page for some runs, and yield its address."""
    ready = threading.Event()
    with bind("127.0.0.1", 0) as listening:
        server = Server(create_app([], runs), Limits(), ready.set)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        assert ready.wait(30)
        try:
            yield f"{url_of(listening)}/runs"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs with translations; the second is better."""
    steps, validated = range(50, 1001, 50), range(200, 1001, 200)
    for name, loss, words in (("base", 9.0, "Zwei Hunde"), ("big", 6.0, "Zwei Hunde laufen.")):
        rows = [*training(*steps, loss=loss), *validation(*validated, loss=loss)]
        outputs = [(step, f"{words} {step}", "Ein Mann", "Niemand") for step in validated]
        write_run(tmp_path / "runs" / name, rows, samples(*outputs), steps=2000)
    return tmp_path / "runs"


def lines(page: "Page", chart: str) -> list[str]:
    """Return the paths of the thick and thin lines of a chart."""
    result: list[str] = page.locator(f"[data-chart={chart}] svg g[clip-path] > path").evaluate_all(
        "all => all.filter((one) => one.getAttribute('fill') === 'none')"
        ".map((one) => one.outerHTML)"
    )
    return result


def look_again(page: "Page") -> None:
    """Trigger a poll by making the page visible."""
    page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")


def test_a_run_is_shown_live(browser: "Browser", runs: Path) -> None:
    run = runs / "base"
    with watching(run) as address, opened(browser) as page, locked_run(run):
        page.goto(address)
        page.get_by_text("training, step 1,000 of 2,000, 8 min").wait_for()
        page.locator("[data-chart=loss] svg").wait_for()
        before = lines(page, "loss")
        assert len(before) == 2  # training and validation
        legend = page.get_by_label("Lines of the charts")
        assert "thin: training" in legend.inner_text()
        assert "markers: validation" in legend.inner_text().replace("\n", " ")
        append(run / "metrics.jsonl", [*training(1050, 1100), *validation(1100)])
        outputs = ["Zwei Hunde laufen.", "Ein Mann <i>schläft</i>.", "Heute kam niemand."]
        append(run / "samples.jsonl", [{"step": 1100, "outputs": outputs}])
        page.get_by_text("training, step 1,100 of 2,000").wait_for()
        page.get_by_text("step 1,100", exact=True).wait_for()
        assert lines(page, "loss") != before
        assert page.title() == "55% · transduce"

        # Translations: the latest, then those before it; what comes from a model is only text.
        first = page.locator("#sentences li").first
        assert page.locator("#validation-step").inner_text() == "step 1,100"
        assert first.locator("mark").all_inner_texts() == ["Zwei Hunde laufen."]
        assert page.get_by_text("Ein Mann <i>schläft</i>.").count() == 1
        assert page.get_by_text(SOURCES[2], exact=True).count() == 1
        page.locator("#validation").focus()
        page.keyboard.press("Home")
        assert page.locator("#validation-step").inner_text() == "step 200"
        assert first.locator(".output").inner_text() == "Zwei Hunde 200"
        assert first.locator("mark").all_inner_texts() == ["Zwei Hunde"]

        # A resumed run has fewer rows than before.
        (run / "metrics.jsonl").write_text("")
        append(run / "metrics.jsonl", training(50, 100))
        look_again(page)
        page.get_by_text("training, step 100 of 2,000").wait_for()
        assert page.locator("[data-chart=bleu]").is_hidden()


def test_runs_are_compared_and_read_by_mouse_and_keys(
    browser: "Browser", runs: Path, tmp_path: Path
) -> None:
    with watching(runs) as address, opened(browser) as page:
        page.goto(address)
        loss = page.locator("[data-chart=loss]")
        loss.locator("svg").wait_for()
        assert page.get_by_text("stopped, step 1,000 of 2,000").count() == 2
        assert len(lines(page, "loss")) == 4
        assert len({tuple(re.findall('stroke="[^"]+"', item)) for item in lines(page, "loss")}) == 2

        loss.locator(".plot").focus()
        for _ in range(2):
            page.keyboard.press("ArrowLeft")
        spoken = "step 950: base training 3.103, base validation 3.375 at 1,000, big training 2.069"
        assert loss.locator("[aria-live]").inner_text().startswith(spoken)
        assert loss.locator(".readout tbody tr").count() == 2
        plot = loss.locator(".plot").bounding_box()
        assert plot
        page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + 50)
        assert "step 500" in loss.locator(".readout").inner_text()

        # Dragging zooms all charts, until the zoom is reset.
        page.mouse.down()
        page.mouse.move(plot["x"] + 0.75 * plot["width"], plot["y"] + 60, steps=3)
        page.mouse.up()
        page.get_by_role("button", name="Whole run").click()
        assert page.get_by_role("button", name="Whole run").is_hidden()
        assert loss.get_by_text("800", exact=True).count() == 1

        before = lines(page, "loss")
        page.get_by_role("button", name="Time").click()
        assert loss.get_by_text("minutes", exact=True).is_visible()
        page.get_by_role("button", name="Smooth training loss").click()
        assert len(lines(page, "loss")) == 6
        loss.get_by_role("button", name="Logarithmic axis").click()
        assert lines(page, "loss") != before

        # Side by side, and one of them alone.
        sentence = page.locator("#sentences li").first
        outputs = sentence.locator(".output").all_inner_texts()
        assert [item.split("\n\n") for item in outputs] == [
            [" base", "Zwei Hunde 1000"],
            [" big", "Zwei Hunde laufen. 1000"],
        ]
        page.get_by_text("Validations as a table").click()
        page.locator("#values tr").nth(9).wait_for()
        page.get_by_label("base").uncheck()
        page.locator("#values tr").nth(5).wait_for(state="detached")
        assert sentence.locator(".output").all_inner_texts() == ["Zwei Hunde laufen. 1000"]

        for ending, magic in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
            with page.expect_download() as download:
                loss.get_by_role("button", name=f"Save as {ending}").click()
            assert download.value.suggested_filename == f"loss.{ending.lower()}"
            download.value.save_as(tmp_path / ending)
            assert (tmp_path / ending).read_bytes().startswith(magic)
        picture = "".join(ET.parse(tmp_path / "SVG").getroot().itertext())
        assert "Loss" in picture
        assert "big" in picture
        assert "thin: training; thicker: smoothed; thick, with markers: validation" in picture


def test_the_legend_of_a_saved_picture_has_room_for_every_run(
    browser: "Browser", runs: Path, tmp_path: Path
) -> None:
    for number in range(8):
        write_run(runs / f"a-run-with-a-rather-long-name-{number}", training(10, 20))
    with watching(runs) as address, opened(browser) as page:
        page.goto(address)
        loss = page.locator("[data-chart=loss]")
        loss.locator("svg").wait_for()
        for box in page.locator("#runs input").all():
            box.check()
        drawn = loss.locator("svg g[clip-path] > path[fill=none]")
        drawn.nth(11).wait_for(state="attached")  # 10 of training, 2 of validation
        with page.expect_download() as download:
            loss.get_by_role("button", name="Save as SVG").click()
        download.value.save_as(tmp_path / "SVG")
    texts = ET.parse(tmp_path / "SVG").getroot().iter("{http://www.w3.org/2000/svg}text")
    names = {item.text: float(item.attrib["x"]) + 8 * len(item.text or "") for item in texts}
    ends = [end for text, end in names.items() if text and text.startswith("a-run")]
    assert len(ends) == 8
    assert max(ends) < 960


def test_runs_with_little_data_on_a_phone_in_the_dark_theme(browser: "Browser", runs: Path) -> None:
    mute = write_run(runs / "mute", training(10))
    write_run(runs / "begun", [])
    with watching(runs) as address, opened(browser, size=PHONE, dark=True) as page:
        page.goto(address)
        page.get_by_text("mute has not validated yet").wait_for()
        assert page.get_by_text("stopped, nothing was logged").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        dark = lines(page, "loss")
        page.get_by_role("button", name="Light or dark").click()
        assert lines(page, "loss") != dark
        for path in mute.iterdir():
            path.unlink()
        mute.rmdir()
        look_again(page)
        page.get_by_text("gone, its folder was removed").wait_for()
