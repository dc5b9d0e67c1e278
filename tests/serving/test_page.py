"""The translation page in a real browser, with a real service."""

import dataclasses
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from translation_page import expect, paragraphs, requests_to, type_in

from browsing import PHONE, opened
from transduce.runs.folder import RunConfig
from transduce.translation.translator import Translator

pytest.importorskip("fastapi", reason="the web extra is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

    from transduce.serving.models import ServedModel

FIRST, SECOND = "the dog sees a tree and every bird likes the fish.", "a man finds the dog today."
TEXT = f"{FIRST} {SECOND}\n\n{SECOND}"
TINTS = "(all) => all.map((one) => Number.parseFloat(one.style.getPropertyValue('--weight')))"
MARKUP = "<b>not bold</b><img src=x onerror=alert(3)>"


@pytest.fixture(scope="module")
def served(learnt_run: Path, tmp_path_factory: pytest.TempPathFactory) -> "list[ServedModel]":
    """A trained model, and the same model named as the opposite direction."""
    from transduce.serving.models import ServedModel

    folder = tmp_path_factory.mktemp("served")
    run = Path(shutil.copytree(learnt_run, folder / "en-de"))
    back = Path(shutil.copytree(learnt_run, folder / "de-en"))
    dataclasses.replace(RunConfig.load(back), languages=("de", "en")).save(back)
    return [ServedModel.load(run, run.name), ServedModel.load(back, back.name)]


@pytest.fixture(scope="module")
def site(served: "list[ServedModel]") -> Iterator[str]:
    """The address of the service."""
    from transduce.serving.app import create_app
    from transduce.serving.limits import Limits
    from transduce.serving.server import Server, bind, url_of

    listens = threading.Event()
    limits = Limits(characters=2000)
    with bind("127.0.0.1", 0) as listening:
        server = Server(create_app(served, limits=limits), limits, listens.set)
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        assert listens.wait(30)
        yield url_of(listening)
        server.should_exit = True
        thread.join()


def translations(served: "list[ServedModel]", text: str) -> list[str]:
    """Return the translation of the lines without the service."""
    translator = Translator.load(served[0].run)
    return [item.text for item in translator.translate(text.split("\n"), split=True)]


def answer_with_markup(route: "Route") -> None:
    """Translate everything into markup, like a model trained on web pages."""
    candidate = {"text": MARKUP, "score": -1.0, "log_probability": -1.0, "tokens": []}
    segment = {"gap": "", "source": SECOND, "candidates": [candidate]}
    route.fulfill(json={"model": "en-de", "paragraphs": [{"segments": [segment]}]})


def test_typing_translates_and_only_changed_text_is_requested(
    browser: "Browser", site: str, served: "list[ServedModel]"
) -> None:
    with opened(browser) as page:
        bodies = requests_to(page, "/api/translate")
        translation = type_in(page, site, TEXT)
        assert paragraphs(translation) == translations(served, TEXT)
        assert page.locator("#status").inner_text().startswith("3 sentences in ")
        assert [body["text"] for body in bodies] == [f"{FIRST} {SECOND}\n{SECOND}"]
        page.keyboard.press("Enter")
        page.keyboard.type("one bird.", delay=5)
        page.keyboard.press("Control+Enter")
        expect(page.locator("#status")).to_contain_text("4 sentences in")
        assert paragraphs(translation) == translations(served, f"{TEXT}\none bird.")
        assert bodies[-1]["text"] == "one bird."
        count = len(bodies)
        for _ in range(len("\none bird.")):
            page.keyboard.press("Backspace")
        expect(page.locator("#status")).to_have_text(re.compile("^3 sentences( ·|$)"))
        assert paragraphs(translation) == translations(served, TEXT)
        assert not [body for body in bodies[count:] if SECOND in body["text"]]
        page.get_by_role("button", name="Clear").click()
        expect(page.locator("#text")).to_be_focused()
        expect(page.locator(".paragraph")).to_have_text([""])
        page.keyboard.press("Control+z")
        expect(page.locator("#text")).to_have_value(TEXT)
        page.get_by_role("button", name="Clear").click()
        page.keyboard.press("Control+z")
        expect(page.locator("#text")).to_have_value(TEXT)
        page.get_by_role("button", name="Clear").click()
        page.locator("#examples button").first.click()
        expect(page.locator("#status")).to_contain_text("1 sentence in")
        assert paragraphs(translation) == translations(served, page.locator("#text").input_value())


def test_a_word_shows_its_probability_and_its_attention(
    browser: "Browser", site: str, served: "list[ServedModel]"
) -> None:
    from transduce.inspection.inspector import Inspector

    inspection = Inspector.load(served[0].run).inspect(SECOND)
    expected = inspection.to_json()
    with opened(browser) as page:
        translation = type_in(page, site, SECOND)
        words = translation.locator(".word")
        expect(words.last).to_have_attribute("data-shade", re.compile("[0-3]"))
        first = [piece for piece, word in enumerate(expected["words"]["target"]) if word == 0]
        chance = 1.0
        for piece in first:
            chance *= expected["probabilities"][piece]
        shade = sum(chance < bound for bound in (0.7, 0.4, 0.15))
        expect(words.first).to_have_attribute("data-shade", str(shade))
        words.first.hover()
        card = page.get_by_role("tooltip")
        expect(card).to_be_visible()
        likeliest = [text.strip() for text, _ in expected["alternatives"][0]][:2]
        assert card.locator(".piece").all_text_contents()[:2] == likeliest
        page.keyboard.press("Escape")
        expect(card).to_be_hidden()

        expect(page.locator("#explorer")).to_be_hidden()
        words.first.click()
        expect(page.locator("#echo-note")).to_contain_text(
            f"Attention of “{words.first.inner_text()}”"
        )
        assert page.locator("#echo").inner_text() == SECOND
        received = inspection.cross[-1].mean(0)[first].mean(0)  # by each piece of the source
        by_word = np.bincount(expected["words"]["source"], received)[:-1]
        tints = page.locator("#echo .attended").evaluate_all(TINTS)
        np.testing.assert_allclose(tints, 100 * by_word, atol=0.2)
        explorer = page.locator("#explorer")
        expect(explorer).to_be_visible()
        expect(explorer.locator("[data-side=row][aria-pressed=true]")).to_have_count(1)
        head = explorer.get_by_role("button", name="layer 1, head 2")
        head.click()
        expect(head).to_have_attribute("aria-pressed", "true")
        for kind in ("SVG", "PNG", "HTML"):
            with page.expect_download() as download:
                explorer.get_by_role("button", name=kind).click()
            assert Path(download.value.path()).stat().st_size > 500, kind
            assert download.value.suggested_filename.endswith(kind.lower())
        page.locator("#attention > summary").click()
        page.reload()
        type_in(page, site, SECOND)
        words.first.click()
        expect(explorer).to_be_hidden()  # as it was left


def test_another_candidate_can_be_chosen_and_settings_reach_the_search(
    browser: "Browser", site: str, served: "list[ServedModel]"
) -> None:
    (best,) = served[0].translator.translate([SECOND], beam=4, nbest=4)
    with opened(browser) as page:
        bodies = requests_to(page, "/api/translate")
        translation = type_in(page, site, SECOND)
        candidates = page.locator("#candidates button")
        texts = [item.text for item in best.candidates]
        assert candidates.locator(".words").all_text_contents() == texts
        expect(candidates.first).to_contain_text("the model's first choice")
        candidates.nth(1).click()
        expect(translation).to_have_text(texts[1])
        expect(candidates.nth(1)).to_have_attribute("aria-pressed", "true")
        page.locator("#text").press("End")
        page.keyboard.type(f" {FIRST}")
        expect(page.locator("#status")).to_contain_text("2 sentences in")
        expect(translation.locator(".sentence").first).to_have_text(texts[1])  # the choice is kept

        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Beam").fill("2")
        page.get_by_label("Length penalty").fill("1.5")
        page.get_by_label("Theme").select_option("dark")
        page.get_by_label("Shade improbable words").uncheck()
        page.get_by_role("button", name="Done").click()
        expect(candidates).to_have_count(2)
        last = bodies[-1]
        assert (last["beam"], last["alpha"], last["nbest"]) == (2, 1.5, 2)
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("#legend")).to_be_hidden()
        page.reload()
        type_in(page, site, SECOND)
        assert bodies[-1]["beam"] == 2
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Beam").fill("99")
        expect(page.locator("#settings-problem")).to_contain_text("Beam: ")
        page.get_by_role("button", name="Reset").click()
        expect(page.get_by_label("Beam")).to_have_value("4")
        page.keyboard.press("Escape")
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        expect(candidates).to_have_count(4)


def test_everything_can_be_done_with_the_keyboard(browser: "Browser", site: str) -> None:
    with opened(browser) as page:
        translation = type_in(page, site, TEXT)
        words = translation.locator(".word")
        expect(words.last).to_have_attribute("data-shade", re.compile("[0-3]"))
        keys = page.keyboard
        keys.press("Tab")  # Clear
        keys.press("Tab")
        expect(words.first).to_be_focused()
        expect(page.get_by_role("tooltip")).to_be_visible()
        keys.press("ArrowRight")
        expect(words.nth(1)).to_be_focused()
        keys.press("End")
        expect(words.last).to_be_focused()
        keys.press("ArrowUp")
        keys.press("Home")
        expect(words.first).to_be_focused()
        keys.press("ArrowLeft")
        expect(words.first).to_be_focused()
        keys.press("?")
        expect(page.get_by_role("dialog", name="Shortcuts")).to_be_visible()
        keys.press("Escape")
        expect(page.get_by_role("dialog", name="Shortcuts")).to_be_hidden()
        expect(words.first).to_be_focused()
        keys.press("Enter")
        expect(page.locator("#echo .most")).to_have_count(1)
        expect(page.locator("#explorer canvas").first).to_be_visible()
        keys.press("Tab")  # Copy
        keys.press("Tab")
        keys.press("Tab")
        second = page.locator("#candidates button").nth(1)
        expect(second).to_be_focused()
        keys.press("Enter")
        expect(second).to_have_attribute("aria-pressed", "true")
        expect(second).to_be_focused()
        assert page.locator("#text").input_value() == TEXT
        page.locator("#text").focus()
        keys.type("?")
        expect(page.get_by_role("dialog", name="Shortcuts")).to_be_hidden()


def test_unusual_texts_are_shown_as_text_on_a_phone_in_the_dark_theme(
    browser: "Browser", site: str, served: "list[ServedModel]"
) -> None:
    odd, long = "<script>alert(1)</script> 👩‍👩‍👧 שלום", "x" * 70
    with opened(browser, size=PHONE, dark=True) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        translation = type_in(page, site, f"{odd}\n{long}")
        assert paragraphs(translation) == translations(served, f"{odd}\n{long}")
        expect(page.locator("#echo")).to_have_text(long)
        page.locator("#text").press("Control+Home")
        expect(page.locator("#echo")).to_have_text(odd)
        words = translation.locator(".word")
        for word in (words.first, words.last):
            expect(word).to_have_attribute("data-shade", re.compile("[0-3]"))
            word.click()
            expect(page.locator("#echo .most")).to_have_count(1)
        expect(page.locator("#explorer canvas").first).to_be_visible()
        page.route("**/api/translate", answer_with_markup)
        page.locator("#text").fill(SECOND)
        expect(translation).to_have_text(MARKUP)
        expect(page.locator("#candidates .words")).to_have_text([MARKUP])
        wide, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide == inner == PHONE[0]
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert max(map(int, re.findall(r"\d+", ground))) < 60


def test_a_button_swaps_the_languages_if_the_opposite_model_is_served(
    browser: "Browser", site: str, served: "list[ServedModel]"
) -> None:
    with opened(browser) as page:
        bodies = requests_to(page, "/api/translate")
        translation = type_in(page, site, SECOND)
        before = paragraphs(translation)
        page.get_by_role("button", name="Swap").click()
        expect(page.locator("#from")).to_have_text("German")
        assert page.locator("#text").input_value() == "\n".join(before)
        expect(page.locator("#status")).to_contain_text("in")
        assert bodies[-1]["model"] == "de-en"
        page.reload()
        expect(page.get_by_label("Languages and model")).to_have_value("de-en")


def test_examples_are_validation_sentences_of_the_model(
    browser: "Browser", site: str, served: "list[ServedModel]"
) -> None:
    assert 1 <= len(served[0].examples) <= 3
    with opened(browser) as page:
        page.goto(site)
        examples = page.locator("#examples button")
        expect(examples).to_have_text([*served[0].examples])
        examples.first.click()
        expect(page.locator("#text")).to_have_value(served[0].examples[0])
        page.get_by_label("Languages and model").select_option("de-en")
        expect(examples.first).to_have_attribute("lang", "de")


def test_problems_are_shown_in_a_sentence_and_retried(
    browser: "Browser", site: str, served: "list[ServedModel]"
) -> None:
    with browser.new_page() as page:  # refused requests are logged in its console
        translation = type_in(page, site, SECOND)
        problem = page.locator("#problem")
        page.keyboard.insert_text("x" * 2000)
        expect(problem).to_contain_text("characters, the limit is 2,000")
        expect(page.locator("#count")).to_contain_text("of 2,000 characters")
        page.locator("#text").fill(SECOND)
        expect(problem).to_have_text("")

        refusals = ["busy", "gone"]

        def refuse(route: "Route") -> None:
            if not refusals:
                route.continue_()
            elif refusals.pop() == "gone":
                route.fulfill(status=200, body="a proxy's page")
            else:
                route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "busy"})

        page.route("**/api/translate", refuse)
        page.locator("#text").fill(FIRST)
        expect(problem).to_contain_text("answered 200")
        page.keyboard.press("Control+Enter")
        expect(problem).to_contain_text("trying again in 1 s")
        expect(translation.locator(".paragraph")).to_have_class(re.compile("stale"))
        expect(problem).to_have_text("")
        assert paragraphs(translation) == translations(served, FIRST)


def test_a_model_that_is_no_longer_served_is_replaced_by_another(
    browser: "Browser", site: str
) -> None:
    def with_another(route: "Route") -> None:
        reported = route.fetch().json()
        route.fulfill(json={**reported, "models": [{**reported["models"][0], "name": "gone"}]})

    with browser.new_page() as page:  # refused requests are logged in its console
        page.route("**/api/models", with_another, times=1)
        page.goto(site)
        expect(page.locator("#model-words")).to_contain_text("gone")
        page.locator("#text").fill(SECOND)
        expect(page.locator("#problem")).to_contain_text("there is no model gone")
        expect(page.locator("#status")).to_contain_text("1 sentence in")
        expect(page.locator("#problem")).to_have_text("")
        assert page.locator("#model option").evaluate_all("all => all.map((one) => one.value)") == [
            "en-de",
            "de-en",
        ]


def test_the_page_says_why_inspection_fails(browser: "Browser", site: str) -> None:
    why = "the source has 300 pieces: at most 128 can be inspected"
    with browser.new_page() as page:  # refused requests are logged in its console
        page.route("**/api/inspect", lambda route: route.fulfill(status=400, json={"error": why}))
        type_in(page, site, FIRST)
        page.locator("#attention summary").click()
        expect(page.locator("#unexplored")).to_have_text(why)
        expect(page.locator("#explorer")).to_be_hidden()
        page.unroute("**/api/inspect")
        page.locator("#text").fill(SECOND)
        expect(page.locator("#explorer canvas").first).to_be_visible()
        expect(page.locator("#unexplored")).to_be_hidden()
