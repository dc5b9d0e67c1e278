"""The attention explorer, in a real browser, from the HTML file that holds it."""

import base64
import json
import re
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
import pytest

import transduce
from browsing import PHONE, opened
from transduce.inspection.explorer_page import EXPLORER, modules, render_explorer
from transduce.pages import FOLDER
from transduce.serving import pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Download, Page, Route

SOURCE = ["The", " animal", " was", " t", "ired", ".", "</s>"]
TARGET = ["Das", " Tier", " war", " m", "ü", "de", ".", "</s>"]
IN_BYTES = ["Das", " Tier", " war", " m", "<0xC3>", "<0xBC>", "de", ".", "</s>"]
LONG = "Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen"
NASTY = ["</script><script>alert(1)</script>", " $title", " &amp;<b>", " שלום", f" {LONG}", "</s>"]
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

Floats = npt.NDArray[np.float64]


def weights(*shape: int, causal: bool = False) -> Floats:
    scores = np.random.default_rng(sum(shape)).normal(size=shape) * 2
    if causal:
        scores[..., ~np.tri(shape[-2], shape[-1], dtype=bool)] = -np.inf
    grown = np.exp(scores)
    return np.asarray(grown / grown.sum(-1, keepdims=True))


def packed(values: Floats) -> dict[str, Any]:
    data = np.rint(values * 65535).astype("<u2").tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(data).decode()}


def words(pieces: list[str]) -> list[int]:
    begins = [
        i > 0 and (piece[0] == " " or piece in {".", "</s>"}) for i, piece in enumerate(pieces)
    ]
    return [sum(begins[: i + 1]) for i in range(len(pieces))]


def spelled(pieces: list[str]) -> list[str]:
    """Return words as texts, of pieces that may be bytes."""
    found = [""] * (words(pieces)[-1] + 1)
    for word, piece in zip(words(pieces), pieces, strict=True):
        found[word] += piece
    return [one.replace("<0xC3><0xBC>", "ü").strip() for one in found]


def _text(pieces: list[str]) -> str:
    return "".join(pieces[:-1]).replace("<0xC3><0xBC>", "ü")


def inspection(
    source: list[str] = SOURCE, target: list[str] = TARGET, *, layers: int = 2, heads: int = 3
) -> dict[str, Any]:
    """Return what inspection.py makes: an encoder of some layers, a decoder of one layer less."""
    s, t = len(source), len(target)
    attention = {
        "encoder": weights(layers, heads, s, s),
        "decoder": weights(layers - 1, heads, t, t, causal=True),
        "cross": weights(layers - 1, heads, t, s),
    }
    return {
        "model": "en-de",
        "languages": ["en", "de"],
        "sentences": [_text(source), _text(target)],
        "source": source,
        "target": target,
        "inputs": ["<s>", *target[:-1]],
        "words": {"source": words(source), "target": words(target)},
        "spelled": {"source": spelled(source), "target": spelled(target)},
        "probabilities": [0.75] * t,
        "alternatives": [[[piece, 0.75], [" other", 0.125]] for piece in target],
        "attention": {kind: packed(values) for kind, values in attention.items()},
    }


def show(page: "Page", folder: Path, made: dict[str, Any], title: str = "en-de") -> None:
    file = folder / "explorer.html"
    file.write_text(render_explorer(made, title=title), encoding="utf-8")
    page.goto(file.as_uri())


def press(page: "Page", name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def pressed(page: "Page") -> list[str]:
    """Return the heads that the grid shows as chosen."""
    found = page.locator(".small[aria-pressed=true]")
    return [str(one.get_attribute("aria-label")) for one in found.all()]


def swatches(page: "Page", side: str) -> list[float]:
    """Return the weights that the swatches beside the words of a side stand for."""
    found = page.locator(f".swatch[data-side={side}]")
    return [float(one.get_attribute("fill-opacity") or 0) for one in found.all()]


def shares(page: "Page", side: str) -> list[str]:
    return page.locator(f".word[data-side={side}] .share").all_text_contents()


def percents(row: Floats) -> list[str]:
    return [f"{round(100 * one)}%" if one >= 0.0095 else "" for one in row]


def labels(page: "Page", side: str) -> list[str]:
    return [str(one.get_attribute("aria-label")) for one in words_of(page, side).all()]


def words_of(page: "Page", side: str) -> Any:
    return page.locator(f".word[data-side={side}]")


def test_every_head_is_a_small_map_that_pointer_and_keys_choose(
    browser: "Browser", tmp_path: Path
) -> None:
    with opened(browser) as page:
        show(page, tmp_path, inspection())
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
        press(page, "layer 1, head 1")  # one more, for several are asked for
        press(page, "layer 1, head 1")
        press(page, "Several")
        page.get_by_role("button", name="layer 2, head 2", exact=True).click(modifiers=["Shift"])
        assert pressed(page) == ["layer 2, head 1", "layer 2, head 3"]
        press(page, "Remove layer 2, head 1")
        assert page.locator(".legend li").all_text_contents() == ["layer 2, head 3"]
        press(page, "Decoder")
        press(page, "Encoder")
        assert pressed(page) == ["layer 2, head 3"]  # each kind keeps its own


def test_a_word_shows_what_it_attends_to_in_pieces_and_in_words(
    browser: "Browser", tmp_path: Path
) -> None:
    cross = weights(1, 3, 8, 7)[0]
    with opened(browser) as page:
        show(page, tmp_path, inspection())
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


def test_a_letter_of_several_pieces_is_a_letter_in_sentences_and_words(
    browser: "Browser", tmp_path: Path
) -> None:
    with opened(browser) as page:
        show(page, tmp_path, inspection(target=IN_BYTES))
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
def test_a_saved_picture_needs_no_page_and_is_light_for_print(
    picture: str, browser: "Browser", tmp_path: Path
) -> None:
    with opened(browser, dark=True) as page:
        show(page, tmp_path, inspection())
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
        show(page, tmp_path, inspection(NASTY, NASTY), title)
        assert page.title() == title
        assert page.locator(".bar .name").inner_text() == title
        assert page.locator("#source").text_content() == "".join(NASTY[:-1])
        assert labels(page, "column") == [piece.strip() for piece in NASTY]
        words_of(page, "column").nth(0).hover()
        assert NASTY[0] in page.locator(".readout").inner_text()
        assert words_of(page, "column").nth(4).locator("title").text_content() == LONG


@pytest.mark.parametrize("dark", [False, True])
def test_a_phone_scrolls_wide_things_by_themselves_in_light_and_dark(
    dark: bool, browser: "Browser", tmp_path: Path
) -> None:
    many = [f" {LONG}{i}" for i in range(40)] + ["</s>"]
    with opened(browser, size=PHONE, dark=dark) as page:
        show(page, tmp_path, inspection(many, many, layers=2, heads=16))
        for picture in ("Lines", "Map"):
            press(page, picture)
            assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        assert page.evaluate(SCROLLING)
        assert (page.evaluate(INK) > 384) == dark
        press(page, "Light or dark")
        assert (page.evaluate(INK) > 384) != dark


def serve(route: "Route", made: dict[str, Any], asked: list[Any]) -> None:
    """Answer as the service does, its content security policy included."""
    path = route.request.url.removeprefix("http://explorer.test/")
    folder = FOLDER if path in {"base.css", "theme.js"} else EXPLORER
    if path == "api/explorer.html":
        asked.append(json.loads(route.request.post_data or ""))
        route.fulfill(body=render_explorer(made, title="saved"), content_type="text/html")
    elif path in {"", "page.js"}:
        text, kind = (MOUNT, "text/javascript") if path else (LIVE, "text/html")
        route.fulfill(body=text, content_type=kind, headers={"Content-Security-Policy": CSP})
    else:
        route.fulfill(path=folder / path)


def test_a_page_shows_chooses_and_highlights(browser: "Browser") -> None:
    made, asked = inspection(), list[Any]()
    cross = weights(1, 3, 8, 7)[0]
    with opened(browser) as page:
        page.route("http://explorer.test/**", lambda route: serve(route, made, asked))
        page.goto("http://explorer.test/")
        page.wait_for_function("window.explorer")
        page.evaluate("explorer.highlight('target', 0)")  # there is nothing yet
        page.evaluate("made => explorer.show(made)", inspection(layers=5))
        page.evaluate("made => explorer.show(made)", made)  # nothing was chosen: its last layer
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
        page.evaluate("made => explorer.show(made)", inspection(target=IN_BYTES))
        download, data = saved(page, "HTML")
        assert download.suggested_filename == "en-de.html"
        assert data.decode() == render_explorer(made, title="saved")
        assert asked == [
            {"source": "The animal was tired.", "target": "Das Tier war müde.", "model": "en-de"}
        ]
        assert saved(page, "PNG")[1].startswith(b"\x89PNG")
        press(page, "layer 1, head 3")
        page.evaluate("made => explorer.show(made)", inspection(layers=4))
        assert pressed(page) == ["layer 1, head 3"]
        page.evaluate("made => explorer.show(made)", inspection(SOURCE[:3], TARGET[:2], heads=1))
        assert pressed(page) == ["layer 1, mean of its heads"]
        assert labels(page, "column") == ["The", "animal", "was"]


def test_what_is_printed_has_the_colours_of_the_light_theme() -> None:
    theme = (FOLDER / "base.css").read_text(encoding="utf-8").partition("}")[0]
    script = (EXPLORER / "colours.js").read_text(encoding="utf-8")
    printed = script.partition("const LIGHT = {")[2].partition("}")[0]
    found = dict(re.findall(r'"?([\w-]+)"?: "(#[0-9a-f]{6})"', printed))
    assert {"ground", "ink", "map-high", "series-1", "series-8"} <= found.keys()
    assert found.items() <= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", theme)).items()


def test_the_file_asks_for_nothing_from_outside() -> None:
    text = render_explorer(inspection(), title="t")
    assert not re.findall(r'(?:src|href)="|@import|url\(', text)
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert Path(transduce.__file__).parent in EXPLORER.parents


def test_the_file_has_every_module_once_below_those_it_needs() -> None:
    found = modules("explorer.js")
    assert {*found} == {path.name for path in EXPLORER.glob("*.js")}
    above = set[str]()
    for name, text in found.items():
        needed = re.findall(r'from "\./(.+)"', (EXPLORER / name).read_text(encoding="utf-8"))
        assert above.issuperset(needed), name
        assert not re.search(r"^(import|export)\b", text, re.MULTILINE), name
        assert text in render_explorer(inspection(), title="t")
        above.add(name)


def test_no_two_modules_declare_the_same_name() -> None:
    script = "\n".join(modules("explorer.js").values())
    declared = r"^(?:async )?(?:const|let|var|class|function)\b\*? *(\w+)"
    names = re.findall(declared, script, re.MULTILINE)
    assert {"Explorer", "Lines", "HeatMap", "Grid", "svg"} <= {*names}
    assert [name for name in {*names} if names.count(name) > 1] == []


def test_every_module_is_served_and_no_page_has_its_name() -> None:
    served = [path for path, _ in pages.files()]
    assert {f"/{path.name}" for path in EXPLORER.glob("*.js")} <= {*served}
    assert len(served) == len({*served})
