"""The HTML of translations and attention for notebooks: escaped, self-contained, any theme."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from browsing import opened
from transduce import Inspector, Translator
from transduce.errors import BadInput
from transduce.inspection import attention_map
from transduce.inspection.inspector import Inspection
from transduce.translation.notebook import CELL, heatmap
from transduce.translation.translation import Candidate, Translation, Translations

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(\'2\')"> & "quotes"'


class Tags(HTMLParser):
    """Parses the tags, attributes and words of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.words += data


def translated(source: str, *texts: str) -> Translation:
    return Translation(source, tuple(Candidate(text, -1.25, -2.0, ()) for text in texts))


def rendered() -> list[str]:
    """Return everything that is shown, with hostile words in every place."""
    weights = np.full((2, 2), 0.5, dtype=np.float32)
    some = Translations([translated(HOSTILE, HOSTILE, HOSTILE), translated("b", "c")])
    return [
        some._repr_html_(),
        some[0]._repr_html_(),
        heatmap(weights, [HOSTILE[:30], "b"], [HOSTILE[:30], "d"], HOSTILE),
    ]


def test_the_html_runs_no_script_and_loads_nothing() -> None:
    for text in rendered():
        tags = Tags(text)
        assert not {*tags.found} & {"script", "img", "iframe", "link", "style", "object"}
        for name, value in tags.attributes:
            assert not name.startswith("on"), name
            assert name not in ("src", "href"), name
            assert "url(" not in value or name == "aria-label", value
        assert "<script>" in tags.words  # shown as text


def test_the_html_sets_no_colours_that_conflict_with_a_theme() -> None:
    for text in rendered():
        for style in re.findall(r'style="([^"]*)"', text):
            assert not re.search(r"(?<![-\w])color:|background(?:-color)?:(?!none)", style), style
        assert not re.search(r'fill="(?!currentColor|none|#3b82f6)', text)


def test_a_table_has_each_text_once_and_all_its_translations() -> None:
    text = Translations([translated("one", "eins", "ein"), translated("two", "zwei")])._repr_html_()
    assert text.count(">one<") == 1
    assert re.findall(r">(eins|ein|zwei)<", text) == ["eins", "ein", "zwei"]
    assert text.count("-1.25") == 3


def test_a_slice_of_translations_has_html_too() -> None:
    some = Translations([translated("one", "eins"), translated("two", "zwei")])
    assert "two" in some[1:]._repr_html_()
    assert ">one<" not in some[1:]._repr_html_()
    assert some[0].text == "eins"


def test_translations_are_a_list_with_html(tiny_run: Path) -> None:
    found = Translator.load(tiny_run, device="cpu").translate(["the dog sees a man.", ""])
    assert isinstance(found, list)
    assert found == list(found)
    assert "the dog sees a man." in found._repr_html_()
    assert found[0].text in Tags(found[0]._repr_html_()).words


def test_a_weight_is_drawn_at_its_position_and_a_small_one_is_not() -> None:
    weights = np.array([[0.96, 0.005], [0.25, 0.75]], dtype=np.float32)
    text = heatmap(weights, ["a", "b"], ["c", "d"], "")
    squares = re.findall(r'<rect x="(\d+)" y="(\d+)" .*?opacity="(.*?)"><title>(.*?)</title>', text)
    assert [title for *_, title in squares] == ["a → c: 96%", "b → c: 25%", "b → d: 75%"]
    assert [opacity for *_, opacity, _ in squares] == ["0.96", "0.25", "0.75"]
    (x, y, *_), (below, under, *_), (right, level, *_) = squares
    assert (int(under) - int(y), int(right) - int(below)) == (CELL, CELL)
    assert (below, under) == (x, level)


@pytest.fixture(scope="module")
def inspection(tiny_run: Path) -> Inspection:
    return Inspector.load(tiny_run).inspect("the dog sees a man.", "der Hund sieht ein Mann.")


def test_a_map_shows_the_requested_heads(inspection: Inspection) -> None:
    mean, head = attention_map(inspection), attention_map(inspection, "encoder", heads=[2])
    assert "layer 1 of 1, mean of all 2 heads" in repr(mean)
    assert repr(head) == "<Self-attention of the encoder: layer 1 of 1, head 2 of 2>"
    assert "Hund → dog" in mean._repr_html_()
    assert "dog → " in head._repr_html_()
    for wrong in ({"layer": 2}, {"heads": [3]}):
        with pytest.raises(BadInput):
            attention_map(inspection, **wrong)


def test_an_inspection_shows_the_attention_of_the_last_layer(inspection: Inspection) -> None:
    text = Tags(inspection._repr_html_()).words
    assert "the dog sees a man. → der Hund sieht ein Mann." in text
    assert text.count("→") > len(inspection.target)


def test_a_map_can_be_saved_as_a_picture(inspection: Inspection, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    attention_map(inspection).save(tmp_path / "map.svg")
    assert (tmp_path / "map.svg").read_text(encoding="utf-8").count("<svg") == 1
    with pytest.raises(BadInput, match="expected a name that ends in"):
        attention_map(inspection).save(tmp_path / "map.txt")


def test_a_browser_draws_the_map_with_all_labels_inside(
    browser: "Browser", inspection: Inspection
) -> None:
    with opened(browser, size=(390, 844), dark=True) as page:
        page.set_content("".join([attention_map(inspection)._repr_html_(), *rendered()]))
        outside = page.evaluate(
            """() => [...document.querySelectorAll("svg")].flatMap(svg => {
                const box = svg.getBoundingClientRect();
                return [...svg.querySelectorAll("text")].filter(text => {
                    const own = text.getBoundingClientRect();
                    return own.left < box.left - 1 || own.right > box.right + 1
                        || own.top < box.top - 1 || own.bottom > box.bottom + 1;
                }).map(text => text.textContent);
            })"""
        )
        assert outside == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
