"""Glossaries, doubtful translations and tags on the translation page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from translation_page import expect, paragraphs, requests_to, type_in

from browsing import DESKTOP, PHONE, opened

pytest.importorskip("fastapi", reason="the web extra is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

DOG, MAN = "the dog sees a tree.", "a man finds the bird today."
SLOW = 30_000  # milliseconds: a sentence with terms is searched again
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
CLIPBOARD = "navigator.clipboard.readText()"
FLAGS = [
    {"kind": "repetition", "detail": "'hund' 3 times in a row"},
    {"kind": "numbers", "detail": "not in the output: 584"},
    {"kind": "length", "detail": "too short: 9 characters where about 40 are usual"},
]
TERMS = [
    {"source": "dog", "target": "Hund", "found": True},
    {"source": "tree", "target": "Gehölz", "found": False},
]
SPANS = [
    {"text": "{n}", "placed": "repeated"},
    {"text": "%s", "placed": "copied"},
    {"text": "%d", "placed": "aligned"},
]
REASONS = [
    "Repetition: 'hund' 3 times in a row",
    "Numbers not in the output: 584",
    "Too short: 9 characters where about 40 are usual",
    "Missing term: “Gehölz” for “tree”",
    "“{n}” is repeated",
]


@pytest.fixture(scope="module")
def site(learnt_run: Path) -> Iterator[str]:
    """The address of a service with a glossary."""
    from serving import listening
    from transduce.glossary import Glossary
    from transduce.serving.app import create_app
    from transduce.serving.models import ServedModel

    animals = Glossary.of({"dog": "Köter", "bird": "Amsel"})
    model = ServedModel.load(learnt_run, "en-de", engine="torch", glossaries={"animals": animals})
    with listening(create_app([model])) as (host, port):
        yield f"http://{host}:{port}"


def choose_glossary(page: "Page", name: str) -> None:
    """Choose a glossary with the keyboard; the drawer stays open."""
    page.get_by_role("button", name="Glossary").press("Enter")
    page.get_by_label("Terms").select_option(label=name)


def doubt_first(route: "Route") -> None:
    """Translate, and doubt the first sentence."""
    answer = route.fetch().json()
    first = answer["paragraphs"][0]["segments"][0]
    first["flags"], first["terms"], first["spans"] = FLAGS, TERMS, SPANS
    first["candidates"][0]["text"] = "Der Hund Hund Hund."
    first["candidates"][2]["text"] = ""
    route.fulfill(json=answer)


def test_a_glossary_of_the_service_is_chosen_used_and_remembered(
    browser: "Browser", site: str
) -> None:
    with opened(browser) as page:
        bodies = requests_to(page, "/api/translate")
        translation = type_in(page, site, f"{DOG} {MAN}")
        assert "glossary" not in bodies[-1]
        choose_glossary(page, "animals")
        page.keyboard.press("Escape")
        for term in ("Köter", "Amsel"):
            terms = translation.locator(".term", has_text=term)
            expect(terms).to_have_count(1, timeout=SLOW)
        assert bodies[-1]["glossary"] == "animals"
        expect(page.locator("#remarks")).to_contain_text("Terms: “bird” → “Amsel”")
        page.reload()
        expect(page.get_by_role("button", name="Glossary: animals")).to_be_visible()
        type_in(page, site, DOG)
        assert bodies[-1]["glossary"] == "animals"
        choose_glossary(page, "None")
        page.keyboard.press("Escape")
        expect(translation.locator(".term")).to_have_count(0)
        expect(translation).not_to_contain_text("Köter")


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)])
def test_own_terms_are_used_and_kept_in_this_browser(
    browser: "Browser", site: str, size: tuple[int, int], dark: bool
) -> None:
    lines = ["# animals", "", "dog = Dackel", "man\tHerr\tcase, inside", "tree", "a=b=c"]
    with opened(browser, size=size, dark=dark) as page:
        bodies = requests_to(page, "/api/translate")
        translation = type_in(page, site, DOG)
        choose_glossary(page, "Own terms")
        field = page.get_by_label("English to German")
        expect(field).to_be_focused()
        page.keyboard.insert_text("\n".join(lines))
        problem = page.locator("#terms-problem")
        expect(problem).to_have_text("Line 5 is not used: expected “term = translation”.")
        expect(page.locator("#terms-count")).to_have_text("2 terms")
        box = field.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        page.keyboard.press("Escape")
        expect(translation).to_contain_text("Dackel", timeout=SLOW)
        assert page.evaluate(OVERFLOW) == 0
        assert bodies[-1]["glossary"] == [
            {"source": "dog", "target": "Dackel"},
            {"source": "man", "target": "Herr", "flags": ["case", "inside"]},
        ]
        page.reload()
        type_in(page, site, DOG)
        expect(page.get_by_role("button", name="Glossary: 2 terms")).to_be_visible()
        expect(field).to_have_value("\n".join(lines))
        assert len(bodies[-1]["glossary"]) == 2


def test_what_the_service_says_about_own_terms_is_shown(browser: "Browser", site: str) -> None:
    with browser.new_page() as page:  # refused requests are logged in its console
        type_in(page, site, DOG)
        choose_glossary(page, "Own terms")
        page.keyboard.insert_text("dog = Hund\ndog = Dackel")
        page.keyboard.press("Escape")
        expect(page.locator("#problem")).to_contain_text("expected one translation of a term")


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, True), (PHONE, False)])
def test_a_doubtful_translation_is_marked_with_its_reasons(
    browser: "Browser", site: str, size: tuple[int, int], dark: bool
) -> None:
    with opened(browser, size=size, dark=dark) as page:
        page.route("**/api/translate", doubt_first)
        translation = type_in(page, site, f"{DOG} {MAN}")
        expect(page.locator("#status")).to_contain_text("doubtful")
        mark = translation.get_by_role("button", name="Doubtful translation").first
        words = translation.locator(".word")
        expect(words.first).to_be_visible()
        keys = page.keyboard
        page.locator("#text").press("Tab")  # Clear
        for key in ("Tab", "ArrowRight", "ArrowRight", "ArrowRight"):
            keys.press(key)
        expect(words.nth(3)).to_be_focused()
        while words.nth(3).evaluate("word => word === document.activeElement"):
            keys.press("ArrowRight")  # the full stop, if it is a word of its own
        for _ in range(2):
            if not mark.evaluate("mark => mark === document.activeElement"):
                keys.press("ArrowRight")
        expect(mark).to_be_focused()
        card = page.get_by_role("tooltip")
        assert card.locator("li").all_text_contents() == REASONS
        assert mark.get_attribute("aria-describedby") == "card"
        keys.press("Enter")
        assert page.locator("#remarks li").all_text_contents() == REASONS
        expect(page.locator("#remarks")).to_contain_text("Terms: “dog” → “Hund”")
        keys.press("ArrowRight")
        expect(mark).not_to_be_focused()
        assert paragraphs(translation)[0].startswith("Der Hund Hund Hund. ")  # without the mark
        assert page.evaluate(OVERFLOW) == 0
        page.locator("#text").press("Control+Home")
        expect(page.locator("#candidates button").nth(2)).to_contain_text("no words")
        page.locator("#candidates button").nth(1).click()
        expect(page.locator("#remarks li")).to_have_count(0)  # the flags are those of the best


def test_the_check_of_translations_is_a_setting(browser: "Browser", site: str) -> None:
    with opened(browser) as page:
        bodies = requests_to(page, "/api/translate")
        type_in(page, site, DOG)
        assert bodies[-1]["guard"] == "flag"
        page.get_by_role("button", name="Settings").click()
        for label, value in (("Searched again", "retry"), ("Not checked", "off")):
            with page.expect_request("**/api/translate"):
                page.get_by_label("Doubtful translations").select_option(label)
            assert bodies[-1]["guard"] == value
        page.get_by_role("button", name="Reset").click()
        expect(page.get_by_label("Doubtful translations")).to_have_value("flag")


def test_tags_are_kept_if_the_text_is_html(browser: "Browser", site: str) -> None:
    text = f"<p>the <b>dog</b> sees a tree.</p>\n<p class='x'>{MAN} {DOG}</p>"
    with opened(browser) as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        bodies = requests_to(page, "/api/translate")
        translation = type_in(page, site, DOG)
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Keep tags").check()
        page.keyboard.press("Escape")
        page.route("**/api/translate", doubt_first)
        page.locator("#text").fill(text)
        expect(translation.locator(".tag")).to_have_text(
            ["<p>", "<b>", "</b>", "</p>", re.compile("^<p class=.x.>$"), "</p>"]
        )
        expect(translation.locator("b")).to_have_count(0)  # tags are text
        assert (bodies[-1]["format"], bodies[-1]["text"]) == ("html", text)
        remarks = translation.locator(".remarks > li")
        assert remarks.first.locator("li").all_text_contents() == REASONS
        expect(remarks.first.locator("q").first).to_have_text(DOG)
        page.get_by_role("button", name="Copy").click()
        copied = page.evaluate(CLIPBOARD)
        assert re.fullmatch(r"<p>.*<b>.*</b>.*</p>\n<p class='x'>.*</p>", copied)
        page.unroute("**/api/translate")
        page.reload()
        type_in(page, site, text)
        assert bodies[-1]["format"] == "html"
