"""The attention explorer in a real browser: choosing heads, words and pictures."""

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from explorer_data import IN_BYTES, LONG, NASTY, SOURCE, TARGET, Floats, explorer_json, weights

from browsing import PHONE, opened
from transduce.inspection.explorer_page import EXPLORER, render_explorer
from transduce.pages import FOLDER

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Download, Page, Route

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LIVE = """<!doctype html><html lang="en"><head><title>t</title>
<link rel="icon" href="data:,"><link rel="stylesheet" href="/base.css">
<link rel="stylesheet" href="/explorer.css"><script src="/theme.js"></script>
<script type="module" src="/page.js"></script></head><body><main id="here"></main></body></html>"""
MOUNT = """import { Explorer } from "/explorer.js";
const element = document.getElementById("here");
window.explorer = new Explorer(element, { document: "/api/explorer.html", name: "en-de" });"""

SHOW = "inspection => explorer.show(inspection)"
DRAWN = """Array.from(document.querySelectorAll(".small canvas"), (canvas) => {
  const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return all.data.some(Boolean);
})"""
INK = """() => {
  const canvas = document.querySelector(".small canvas");
  const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const alphas = all.filter((_, i) => i % 4 === 3);
  const strongest = 4 * alphas.indexOf(Math.max(...alphas));
  return all[strongest] + all[strongest + 1] + all[strongest + 2];
}"""
SCROLLING = """[".scroller", ".large"].every((name) => {
  const element = document.querySelector(name);
  return element.scrollWidth > element.clientWidth;
})"""


def show(page: "Page", folder: Path, inspection: dict[str, Any], title: str = "en-de") -> None:
    file = folder / "explorer.html"
    file.write_text(render_explorer(inspection, title=title), encoding="utf-8")
    page.goto(file.as_uri())


def press(page: "Page", name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def pressed(page: "Page") -> list[str]:
    """Return the heads that the grid shows as chosen."""
    found = page.locator(".small[aria-pressed=true]")
    return [str(button.get_attribute("aria-label")) for button in found.all()]


def swatches(page: "Page", side: str) -> list[float]:
    """Return the weights of the colour swatches of the words of a side."""
    found = page.locator(f".swatch[data-side={side}]")
    return [float(swatch.get_attribute("fill-opacity") or 0) for swatch in found.all()]


def shares(page: "Page", side: str) -> list[str]:
    return page.locator(f".word[data-side={side}] .share").all_text_contents()


def percents(row: Floats) -> list[str]:
    return [f"{round(100 * weight)}%" if weight >= 0.0095 else "" for weight in row]


def labels(page: "Page", side: str) -> list[str]:
    return [str(word.get_attribute("aria-label")) for word in words_of(page, side).all()]


def words_of(page: "Page", side: str) -> Any:
    return page.locator(f".word[data-side={side}]")


def test_every_head_is_a_small_map_chosen_by_pointer_or_keys(
    browser: "Browser", tmp_path: Path
) -> None:
    with opened(browser) as page:
        show(page, tmp_path, explorer_json())
        small = page.locator(".small")
        assert small.count() == 1 * (3 + 1) + 1  # the decoder's layer, its mean, the mean of all
        assert pressed(page) == ["layer 1, mean of its heads"]
        press(page, "Encoder")
        assert small.count() == 2 * (3 + 1) + 1
        assert pressed(page) == ["layer 2, mean of its heads"]
        assert all(page.evaluate(DRAWN))

        page.get_by_role("button", name="layer 1, head 2", exact=True).click()
        assert pressed(page) == ["layer 1, head 2"]
        assert page.locator(".grid [tabindex='0']").count() == 1
        for key in ("ArrowDown", "ArrowLeft"):
            page.keyboard.press(key)
        focused = page.locator(":focus")
        assert focused.get_attribute("aria-label") == "layer 2, head 1"
        page.keyboard.press("Enter")
        assert pressed(page) == ["layer 2, head 1"]
        page.keyboard.press("End")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")  # adds
        assert pressed(page) == ["layer 2, head 1", "mean of all heads of all layers"]
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Home")
        assert focused.get_attribute("aria-label") == "layer 2, all heads"
        press(page, "Several")
        page.locator("[data-layer='2']").press("Space")
        assert pressed(page) == [f"layer 2, head {head}" for head in (1, 2, 3)]
        press(page, "layer 1, head 1")  # adds it, then removes it
        press(page, "layer 1, head 1")
        press(page, "Several")
        page.get_by_role("button", name="layer 2, head 2", exact=True).click(modifiers=["Shift"])
        assert pressed(page) == ["layer 2, head 1", "layer 2, head 3"]
        press(page, "Remove layer 2, head 1")
        assert page.locator(".legend li").all_text_contents() == ["layer 2, head 3"]
        press(page, "Decoder")
        press(page, "Encoder")
        assert pressed(page) == ["layer 2, head 3"]  # each kind keeps its selection


def test_a_word_shows_its_attention_by_pieces_and_by_words(
    browser: "Browser", tmp_path: Path
) -> None:
    cross = weights(1, 3, 8, 7)[0]
    with opened(browser) as page:
        show(page, tmp_path, explorer_json())
        press(page, "layer 1, head 3")
        assert labels(page, "row") == ["Das", "Tier", "war", "m", "·ü", "·de", ".", "</s>"]
        assert shares(page, "column") == [""] * 7
        everything = page.locator(".lines path").count()
        words_of(page, "row").nth(4).hover()
        assert shares(page, "column") == percents(cross[2, 4])
        assert swatches(page, "row") == [1]
        assert sum(swatches(page, "column")) == pytest.approx(1, abs=1e-3)
        assert 0 < page.locator(".lines path").count() < everything
        assert "“·ü” looks at" in page.locator(".readout").inner_text()
        assert "written with probability 75%; others: “other” 13%" in (
            page.locator(".readout").inner_text()
        )
        page.mouse.move(0, 0)
        assert swatches(page, "column") == []

        words_of(page, "column").nth(2).click()  # pinned: how much each word looks at this one
        page.mouse.move(0, 0)
        assert shares(page, "row") == percents(cross[2, :, 2])
        page.keyboard.press("Escape")
        assert shares(page, "row") == [""] * 8

        press(page, "Words")
        assert labels(page, "row") == ["Das", "Tier", "war", "müde", ".", "</s>"]
        assert labels(page, "column") == ["The", "animal", "was", "tired", ".", "</s>"]
        words_of(page, "row").nth(3).focus()
        merged = cross[2, 3:6].mean(0)
        merged = np.array([*merged[:3], merged[3] + merged[4], *merged[5:]])
        assert shares(page, "column") == percents(merged)
        assert sum(swatches(page, "column")) == pytest.approx(1, abs=1e-3)
        assert swatches(page, "column") == pytest.approx(merged, abs=1e-3)

        press(page, "layer 1, all heads")
        words_of(page, "row").nth(0).focus()
        assert len(swatches(page, "row")) == 3
        assert sum(swatches(page, "column")) == pytest.approx(3, abs=3e-3)
        colours = {path.get_attribute("stroke") for path in page.locator(".lines path").all()}
        assert len(colours) == 3

        press(page, "layer 1, mean of its heads")
        press(page, "Map")
        page.locator(".cells").hover(position={"x": 1, "y": 1})
        whole = round(100 * cross[:, 0, 0].mean())
        assert f"“The” {whole}%" in page.locator(".readout").inner_text()
        words_of(page, "column").nth(1).focus()
        page.keyboard.press("ArrowRight")
        assert "“was” is looked at by" in page.locator(".readout").inner_text()


def test_a_letter_of_several_pieces_is_whole_in_sentences_and_words(
    browser: "Browser", tmp_path: Path
) -> None:
    with opened(browser) as page:
        show(page, tmp_path, explorer_json(target=IN_BYTES))
        assert labels(page, "row")[4:6] == ["·<0xC3>", "·<0xBC>"]
        page.get_by_role("button", name="Words", exact=True).click()
        assert labels(page, "row") == ["Das", "Tier", "war", "müde", ".", "</s>"]
        assert page.locator("#target").text_content() == "Das Tier war müde."
        page.get_by_role("button", name="Decoder", exact=True).click()
        assert labels(page, "column") == ["<s>", "Das", "Tier", "war", "müde", "."]


def saved(page: "Page", name: str) -> tuple["Download", bytes]:
    with page.expect_download() as started:
        press(page, name)
    return started.value, Path(started.value.path()).read_bytes()


@pytest.mark.parametrize("picture", ["Lines", "Map"])
def test_a_saved_picture_is_self_contained_and_light(
    picture: str, browser: "Browser", tmp_path: Path
) -> None:
    with opened(browser, dark=True) as page:
        show(page, tmp_path, explorer_json())
        press(page, picture)
        press(page, "layer 1, head 2")
        words_of(page, "row").nth(1).click()
        download, data = saved(page, "SVG")
        assert download.suggested_filename == "attention-cross-layer-1-head-2.svg"
        root = ET.fromstring(data)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
        assert "sans-serif" in root.attrib["font-family"]
        ground = root[0]
        assert (ground.attrib["width"], ground.attrib["fill"]) == ("100%", "#ffffff")
        assert b"var(" not in data
        assert b'class="word"' not in data
        texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {"Encoder-decoder attention", "layer 1, head 2", "Tier", "animal", "</s>"} <= {
            *texts
        }

        download, data = saved(page, "PNG")
        assert download.suggested_filename == "attention-cross-layer-1-head-2.png"
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", data[16:24]) == (round(3 * width), round(3 * height))


def test_text_that_looks_like_markup_is_shown_as_text(browser: "Browser", tmp_path: Path) -> None:
    title = 'a <b>"title"</b> & $base'
    with opened(browser, size=PHONE) as page:
        show(page, tmp_path, explorer_json(NASTY, NASTY), title)
        assert page.title() == title
        assert page.locator(".bar .name").inner_text() == title
        assert page.locator("#source").text_content() == "".join(NASTY[:-1])
        assert labels(page, "column") == [piece.strip() for piece in NASTY]
        words_of(page, "column").nth(0).hover()
        assert NASTY[0] in page.locator(".readout").inner_text()
        assert words_of(page, "column").nth(4).locator("title").text_content() == LONG


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_phone_only_wide_parts_scroll_in_light_and_dark(
    dark: bool, browser: "Browser", tmp_path: Path
) -> None:
    many = [f" {LONG}{i}" for i in range(40)] + ["</s>"]
    with opened(browser, size=PHONE, dark=dark) as page:
        show(page, tmp_path, explorer_json(many, many, layers=2, heads=16))
        for picture in ("Lines", "Map"):
            press(page, picture)
            assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        assert page.evaluate(SCROLLING)
        assert (page.evaluate(INK) > 384) == dark
        press(page, "Light or dark")
        assert (page.evaluate(INK) > 384) != dark


def serve(route: "Route", inspection: dict[str, Any], requests: list[Any]) -> None:
    """Answer as the service does, its content security policy included."""
    path = route.request.url.removeprefix("http://explorer.test/")
    folder = FOLDER if path in {"base.css", "theme.js"} else EXPLORER
    if path == "api/explorer.html":
        requests.append(json.loads(route.request.post_data or ""))
        route.fulfill(body=render_explorer(inspection, title="saved"), content_type="text/html")
    elif path in {"", "page.js"}:
        text, kind = (MOUNT, "text/javascript") if path else (LIVE, "text/html")
        route.fulfill(body=text, content_type=kind, headers={"Content-Security-Policy": CSP})
    else:
        route.fulfill(path=folder / path)


def test_a_page_can_show_select_and_highlight(browser: "Browser") -> None:
    inspection, requests = explorer_json(), list[Any]()
    cross = weights(1, 3, 8, 7)[0]
    with opened(browser) as page:
        page.route("http://explorer.test/**", lambda route: serve(route, inspection, requests))
        page.goto("http://explorer.test/")
        page.wait_for_function("window.explorer")
        page.evaluate("explorer.highlight('target', 0)")  # nothing is shown yet
        page.evaluate(SHOW, explorer_json(layers=5))
        page.evaluate(SHOW, inspection)  # nothing is chosen: its last layer
        page.evaluate("explorer.select({kind: 'encoder', layer: 2, head: 3})")
        assert pressed(page) == ["layer 2, head 3"]
        page.evaluate("explorer.highlight('target', 4)")
        assert pressed(page) == ["layer 1, mean of its heads"]
        assert shares(page, "column") == percents(cross.mean(0)[4])
        press(page, "Words")
        page.evaluate("explorer.highlight('source', 4)")
        assert page.locator(".word[aria-pressed=true]").get_attribute("aria-label") == "tired"
        page.evaluate("explorer.highlight('source', null)")
        assert page.locator(".word[aria-pressed=true]").count() == 0
        page.evaluate("explorer.select({kind: 'cross', layer: 9, head: 1})")
        assert pressed(page) == ["layer 1, mean of its heads"]
        page.evaluate(SHOW, explorer_json(target=IN_BYTES))
        download, data = saved(page, "HTML")
        assert download.suggested_filename == "en-de.html"
        assert data.decode() == render_explorer(inspection, title="saved")
        assert requests == [
            {"source": "The animal was tired.", "target": "Das Tier war müde.", "model": "en-de"}
        ]
        assert saved(page, "PNG")[1].startswith(b"\x89PNG")
        press(page, "layer 1, head 3")
        page.evaluate(SHOW, explorer_json(layers=4))
        assert pressed(page) == ["layer 1, head 3"]
        page.evaluate(
            "inspection => explorer.show(inspection)",
            explorer_json(SOURCE[:3], TARGET[:2], heads=1),
        )
        assert pressed(page) == ["layer 1, mean of its heads"]
        assert labels(page, "column") == ["The", "animal", "was"]
