"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import browser as installed

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP, PHONE = (1280, 800), (360, 740)


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Start the browser, or skip the test if none is installed."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if installed.find_browser() is None:
        pytest.skip(f"no browser: none of {', '.join(installed.NAMES)} is installed")
    with installed.chromium() as browser:
        yield browser


@contextmanager
def opened(
    browser: "Browser",
    *,
    size: tuple[int, int] = DESKTOP,
    dark: bool = False,
    refused: bool = False,
) -> Iterator["Page"]:
    """Open an empty page; errors in its console fail the test.

    `refused`: 401 is not such an error, though the browser logs it.
    """
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if dark else "light",
        accept_downloads=True,
    )
    empty = context.new_page()
    complaints: list[str] = []
    empty.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    empty.on("pageerror", lambda error: complaints.append(str(error)))
    yield empty
    context.close()
    assert [item for item in complaints if not (refused and "status of 401" in item)] == []
