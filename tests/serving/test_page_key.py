"""The pages of a service that needs a key ask for it once per tab."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browsing import DESKTOP, PHONE, opened
from serving import listening, scripted

pytest.importorskip("fastapi", reason="the web extra is not installed")
expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser

KEY = "a-key-of-some-letters"


@pytest.fixture(scope="module")
def site(tiny_run: Path) -> Iterator[str]:
    """The address of a service that needs a key."""
    from transduce.serving.access import Access
    from transduce.serving.app import create_app
    from transduce.serving.keys import Keys

    app = create_app([scripted(tiny_run)[0]], [tiny_run], access=Access(keys=Keys([KEY])))
    with listening(app) as (host, port):
        yield f"http://{host}:{port}"


@pytest.mark.parametrize(("size", "dark"), [(DESKTOP, False), (PHONE, True)])
def test_the_page_asks_once_for_the_key_and_works_by_keyboard(
    browser: "Browser", site: str, size: tuple[int, int], dark: bool
) -> None:
    with opened(browser, size=size, dark=dark, refused=True) as page:
        page.goto(site)
        dialog = page.get_by_role("dialog", name="This service needs a key")
        field = dialog.get_by_label("Key")
        expect(field).to_be_focused()
        assert field.get_attribute("type") == "password"
        box = dialog.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        page.keyboard.type("wrong-key-of-some-letters")
        page.keyboard.press("Enter")
        expect(dialog.get_by_role("alert")).to_have_text("The service does not accept this key.")
        expect(field).to_be_focused()
        page.keyboard.type(KEY)
        page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)
        expect(page.locator("#from")).to_have_text("English")
        page.locator("#text").fill("a dog.")
        expect(page.locator("#translation")).to_have_text("a dog.")
        page.locator("#document-file").set_input_files(
            {"name": "hotel.txt", "mimeType": "text/plain", "buffer": b"a dog."}
        )
        with page.expect_download() as download:
            page.get_by_role("link", name="Download").click()  # without the key
        assert Path(download.value.path()).read_text(encoding="utf-8") == "a dog."
        page.goto(f"{site}/runs")
        expect(page.locator(".run-name")).to_have_text("tiny")
        page.reload()
        expect(page.locator(".run-name")).to_have_text("tiny")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert page.evaluate("Object.keys(localStorage)") == []
        assert KEY not in page.url


def test_without_a_key_the_page_says_so_and_does_not_ask_again(
    browser: "Browser", site: str
) -> None:
    with opened(browser, refused=True) as page:
        page.goto(site)
        page.get_by_role("button", name="Not now").click()
        expect(page.locator("#problem")).to_contain_text("needs a key")
        page.goto(f"{site}/runs")
        expect(page.locator("#key input")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#problem")).to_contain_text("a key is needed")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_api_description_needs_no_key(browser: "Browser", site: str) -> None:
    with opened(browser) as page:
        page.goto(f"{site}/docs")
        expect(page.get_by_role("heading", name="API", exact=True)).to_be_visible()
        expect(page.locator("main")).to_contain_text("Authorization: Bearer KEY")
