"""A real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.testbed.processes import need

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

_PROGRAM = "chromium-headless-shell"
"""Chromium without a window; to open a page takes half the processor time of `chromium --headless`."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser. Raises Unavailable where it is not installed."""
    need(_PROGRAM)
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - most tests need no browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which(_PROGRAM), args=["--no-sandbox"])
        yield browser
        browser.close()


def words(locator: Locator) -> str:
    """What an element shows, with plain spaces between figures and units."""
    return locator.inner_text().replace("\N{NO-BREAK SPACE}", " ")
