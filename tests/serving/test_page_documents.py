"""Documents on the translation page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from translation_page import expect

from browsing import DESKTOP, PHONE, opened

pytest.importorskip("fastapi", reason="the web extra is not installed")

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload, Locator, Page, Route

DOG, MAN = "the dog sees a tree.", "a man finds the bird today."
SUBTITLES = f"1\n00:00:01,000 --> 00:00:02,000\n{DOG}\n"
TERMS = '[{"source":"dog","target":"Hund"}]'
OVERFLOW = "document.documentElement.scrollWidth - innerWidth"
LONG = "a very long name of a document " * 4
DROP = """([name, text]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([text], name));
  const target = document.getElementById("text");
  const send = (type) => target.dispatchEvent(
    new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
  send("dragover");
  const shown = getComputedStyle(target.closest(".pane"), "::after").content;
  send("drop");
  return shown;
}"""


@pytest.fixture(scope="module")
def site(tiny_run: Path) -> Iterator[str]:
    """The address of a service whose translations are their sources."""
    from serving import listening, scripted
    from transduce.serving.app import create_app

    with listening(create_app([scripted(tiny_run)[0]])) as (host, port):
        yield f"http://{host}:{port}"


def file(name: str, text: str) -> "FilePayload":
    """Return a file for the browser."""
    return {"name": name, "mimeType": "application/octet-stream", "buffer": text.encode()}


def choose(page: "Page", *files: "FilePayload") -> "Locator":
    """Choose files after the button was pressed; return their rows."""
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Translate a document").press("Enter")
    chooser.value.set_files([*files])
    return page.locator("#document-list > li")


def answer(**fields: Any) -> dict[str, Any]:
    """Return an answer of the service."""
    return {
        "model": "tiny",
        "name": "hotel.de.txt",
        "url": "/download_file/x",
        "bytes": 2048,
        "texts": 1,
        "characters": 20,
        "milliseconds": 1.0,
        "not_translated": [],
        "remarks": [],
        **fields,
    }


def received(page: "Page") -> list[str]:
    """Return a list to which the body of every request with a document is added."""
    bodies: list[str] = []

    def add(route: "Route") -> None:
        bodies.append((route.request.post_data_buffer or b"").decode())
        route.fulfill(json=answer())

    page.route("**/api/documents", add)
    return bodies


def test_documents_are_translated_and_downloaded(browser: "Browser", site: str) -> None:
    name = "Überblick über “alles”.txt"
    with opened(browser) as page:
        page.goto(site)
        rows = choose(page, file(name, f"{DOG}\n\n{MAN}\n"), file("talk.srt", SUBTITLES))
        expect(page.locator("#document-news")).to_have_text("talk.srt is translated.")
        expect(rows.first).to_contain_text("50 bytes · English → German")
        expect(rows.first).to_contain_text("2 texts · 50 bytes · kept for 30 minutes")
        for row, expected in zip(rows.all(), (name, "talk.srt"), strict=True):
            with page.expect_download() as download:
                row.get_by_role("link", name="Download").click()
            stem, _, suffix = expected.rpartition(".")
            assert download.value.suggested_filename == f"{stem}.de.{suffix}"
        assert Path(download.value.path()).read_text(encoding="utf-8") == SUBTITLES
        page.get_by_role("button", name=f"Remove {name}").press("Enter")
        expect(page.get_by_role("button", name="Remove talk.srt")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#documents")).to_be_hidden()
        expect(page.get_by_role("button", name="Translate a document")).to_be_focused()


def test_a_dropped_document_is_translated(browser: "Browser", site: str) -> None:
    with opened(browser) as page:
        page.goto(site)
        expect(page.locator("#open-document")).to_be_visible()
        shown = page.evaluate(DROP, ["hotel.txt", DOG])
        assert shown.startswith('"Drop documents here: ')
        expect(page.get_by_role("link", name="Download")).to_have_attribute(
            "download", "hotel.de.txt"
        )
        assert page.url.rstrip("/") == site
        assert page.locator("#text").input_value() == ""


def test_files_that_are_not_accepted_are_never_sent(browser: "Browser", site: str) -> None:
    def with_limit(route: "Route") -> None:
        reported = route.fetch().json()
        for model in reported["models"]:
            model["documents"] = {"extensions": [".docx", ".txt"], "max_bytes": 1536}
        route.fulfill(json=reported)

    with opened(browser) as page:
        page.route("**/api/models", with_limit)
        bodies = received(page)
        page.goto(site)
        rows = choose(
            page, file("photo.png", "x"), file("big.txt", "x" * 3000), file("empty.TXT", "")
        )
        assert rows.locator(".error").all_text_contents() == [
            "Files of this kind are not translated: expected docx, txt.",
            "The file has 2.9 KiB, the limit is 1.5 KiB: split it.",
            "The file is empty.",
        ]
        expect(page.locator("#documents-taken")).to_have_text("docx, txt; up to 1.5 KiB")
        expect(page.locator("#document-news")).to_have_text("empty.TXT: The file is empty.")
        assert bodies == []


def test_without_documents_the_page_says_so(browser: "Browser", site: str) -> None:
    def without(route: "Route") -> None:
        reported = route.fetch().json()
        models = [{**model, "documents": None} for model in reported["models"]]
        route.fulfill(json={**reported, "models": models})

    with opened(browser) as page:
        page.route("**/api/models", without)
        page.goto(site)
        expect(page.locator("#model-words")).to_contain_text("tiny")
        expect(page.locator("#open-document")).to_be_hidden()
        page.evaluate(DROP, ["hotel.txt", DOG])
        expect(page.locator("#problem")).to_have_text("This service takes no documents.")
        expect(page.locator("#documents")).to_be_hidden()


def test_settings_and_answers_to_questions_are_sent(browser: "Browser", site: str) -> None:
    with opened(browser) as page:
        bodies = received(page)
        page.goto(site)
        expect(page.locator("#open-document")).to_be_visible()
        page.get_by_role("button", name="Glossary").click()
        page.get_by_label("Terms").select_option(label="Own terms")
        page.locator("#terms").fill("dog = Hund")
        page.keyboard.press("Escape")
        rows = choose(page, file("shop.csv", "id,text\n1,a dog.\n"))
        expect(rows).to_contain_text("First line: id,text")
        columns = page.get_by_label("Columns to translate")
        expect(columns).to_be_focused()
        page.keyboard.press("Enter")
        assert bodies == []  # an answer is required
        page.keyboard.type("text")
        page.keyboard.press("Enter")
        expect(page.locator("#document-news")).to_have_text("shop.csv is translated.")
        expect(page.get_by_role("link", name="Download")).to_be_focused()
        choose(page, file("menu.json", "{}"))
        page.get_by_role("button", name="Translate", exact=True).click()
        expect(page.locator("#document-news")).to_have_text("menu.json is translated.")
        first, second = bodies
        for body in bodies:
            for name, value in {"model": "tiny", "guard": "flag", "glossary": TERMS}.items():
                assert re.search(f'name="{name}"\r\n\r\n{re.escape(value)}\r\n', body), name
        assert 'name="columns"\r\n\r\ntext\r\n' in first
        assert 'name="keys"' not in second


def test_errors_of_the_service_are_shown_and_a_busy_one_is_asked_again(
    browser: "Browser", site: str
) -> None:
    with browser.new_page() as page:  # refused requests are logged in its console
        page.goto(site)
        rows = choose(page, file("talk.srt", "\x00\x01 is no subtitle"))
        problem = rows.locator(".error")
        expect(problem).to_have_text("line 1 has a NUL byte: expected a text file in UTF-8")
        expect(page.locator("#document-news")).to_have_text(f"talk.srt: {problem.inner_text()}")
        expect(page.get_by_role("button", name="Try again")).to_have_count(0)  # the file is wrong
        refusals = ["busy", "gone"]

        def refuse(route: "Route") -> None:
            if not refusals:
                route.fulfill(json=answer())
            elif refusals.pop() == "gone":
                route.abort()
            else:
                route.fulfill(status=503, headers={"Retry-After": "1"}, json={"error": "busy"})

        page.route("**/api/documents", refuse)
        choose(page, file("hotel.txt", DOG))
        expect(rows.last).to_contain_text("The service does not answer")
        page.get_by_role("button", name="Try again hotel.txt").click()
        expect(rows.last).to_contain_text("The service is busy: trying again in 1 s.")
        expect(page.get_by_role("link", name="Download")).to_be_visible()


def test_a_document_can_be_cancelled_and_started_again(browser: "Browser", site: str) -> None:
    with opened(browser) as page:
        page.route("**/api/documents", lambda _: None)  # no answer
        page.goto(site)
        rows = choose(page, file("a.txt", DOG), file("b.txt", DOG), file("c.txt", DOG))
        expect(rows.first.get_by_role("progressbar", name="a.txt")).to_be_visible()
        expect(rows.nth(1)).to_contain_text("Waiting …")
        rows.nth(1).get_by_role("button", name="Cancel").press("Enter")
        expect(rows.nth(1).get_by_role("button", name="Try again b.txt")).to_be_focused()
        rows.first.get_by_role("button", name="Cancel").click()
        expect(rows.first).to_contain_text("Cancelled.")
        expect(rows.nth(2).get_by_role("progressbar")).to_be_visible()
        page.unroute("**/api/documents")  # the request goes on
        expect(rows.nth(2).get_by_role("link", name="Download")).to_be_visible()
        rows.first.get_by_role("button", name="Try again").click()
        expect(rows.first.get_by_role("link", name="Download")).to_be_visible()


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, True), (PHONE, False)])
def test_doubtful_texts_are_listed_and_long_names_are_cut_in_the_middle(
    browser: "Browser", site: str, size: tuple[int, int], dark: bool
) -> None:
    flag = {"kind": "numbers", "detail": "not in the output: 584"}
    term = {"source": "tree", "target": "Baum", "found": False}
    remark = {"where": "paragraph 3", "source": DOG, "text": "Der Hund.", "flags": [flag]}
    made = answer(
        name=f"{LONG}final.de.docx",
        not_translated=["2 tracked deletions", "1 chart"],
        remarks=[{**remark, "terms": [term]}],
    )
    with opened(browser, size=size, dark=dark) as page:
        page.route("**/api/documents", lambda route: route.fulfill(json=made))
        page.goto(site)
        rows = choose(page, file(f"{LONG}final.docx", DOG))
        summary = rows.locator("summary")
        expect(summary).to_have_text("1 doubtful text")
        expect(rows).to_contain_text("Not translated: 2 tracked deletions, 1 chart.")
        summary.press("Enter")
        assert rows.locator(".doubts li").all_text_contents() == [
            "Numbers not in the output: 584",
            "Missing term: “Baum” for “tree”",
        ]
        start, end = rows.locator(".file").first.locator("[aria-hidden]").all()
        assert start.evaluate("part => part.scrollWidth > part.clientWidth")
        assert end.inner_text() == f"{LONG}final.docx"[-12:]
        box = end.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= size[0]
        assert page.evaluate(OVERFLOW) == 0
