"""How soon the page shows its first answer, and how soon the answer to a change, in a browser on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.service.conftest import serving
from tests.testbed.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.benchmark

NUM_VISITS = 9
NUM_CHANGES = 25
UNTIL_PAINTED = """() => new Promise((resolve) => {
  const seen = () => document.querySelector("#answer[aria-busy=false] .verdict")
    ? requestAnimationFrame(() => setTimeout(() => resolve(performance.now())))
    : requestAnimationFrame(seen);
  seen();
})"""
CHANGE = """(text) => new Promise((resolve) => {
  const field = document.getElementById("storage.profile.write_bytes_per_second");
  const begun = performance.now();
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - begun)));
  }).observe(document.getElementById("shown"), { childList: true });
  field.value = text;
  field.dispatchEvent(new Event("input"));
})"""


@pytest.fixture
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


def told(title: str, milliseconds: list[float]) -> None:
    """Print the median of durations, and the longest."""
    print(f"\n{title}: median {statistics.median(milliseconds):.0f} ms, max {max(milliseconds):.0f} ms")


def first_answer(browser: Browser, address: str) -> tuple[Page, float]:
    """A page as a new visitor sees it, and the milliseconds from its navigation until its answer is painted."""
    page = browser.new_context().new_page()
    page.goto(address, wait_until="commit")
    page.wait_for_selector("#answer", state="attached")
    return page, page.evaluate(UNTIL_PAINTED)


def test_the_page(browser: Browser, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path}/service.sqlite3"
    with serving(tmp_path / "log", "--port", "0", "--database-url", database) as (_, address):
        visits = [first_answer(browser, address) for _ in range(NUM_VISITS)]
        told("first answer painted", [milliseconds for _, milliseconds in visits])
        page, _ = visits[0]
        told(
            "a change answered, with the pause for the next key",
            [page.evaluate(CHANGE, f"{100 + number} GB/s") for number in range(NUM_CHANGES)],
        )
