"""The translation page in a browser, for tests."""

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def type_in(page: "Page", site: str, text: str) -> "Locator":
    """Open the page, type a text, and return the translation once it is there."""
    page.goto(site)
    expect(page.locator("#from")).to_have_text("English")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.insert_text(text)
    expect(page.locator("#status")).to_contain_text(re.compile(r"sentences? in"))
    return page.locator("#translation")


def requests_to(page: "Page", path: str) -> list[dict[str, Any]]:
    """Return a list to which the body of every request to a path is added."""
    bodies: list[dict[str, Any]] = []
    page.on(
        "request",
        lambda request: (
            bodies.append(json.loads(request.post_data or ""))
            if request.url.endswith(path)
            else None
        ),
    )
    return bodies


def paragraphs(translation: "Locator") -> list[str]:
    """Return the paragraphs of the translation."""
    return translation.locator(".paragraph").all_text_contents()
