"""Pictures of every page at three widths in both themes, kept in `build/pages` with a contact sheet to look through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from service.routes.pages import FURTHER
from tests.service.conftest import Service
from tests.service.test_page import MILLISECONDS_UNTIL_STUCK, Scheme, answered, asked_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

QUESTIONS = ("answer", "requirements", "layouts", "offers", "techniques", "simulation")
VIEWS = {f"sizing-{question}": "" for question in QUESTIONS} | {
    (path or "sizing").replace("#", "-"): path for path in (*FURTHER, "storage-systems#page-slower", "docs")
}
WIDTHS = (360, 900, 1440)
WITH_TARGETS = {"rules": {"target-size": {"enabled": True}}}
"""WCAG 2.2, 2.5.8: targets of 24 pixels, which axe leaves out unless it is told."""
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
KEPT = Path(__file__).parents[2] / "build" / "pages"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where the pictures are kept; a contact sheet of all of them at the end."""
    KEPT.mkdir(parents=True, exist_ok=True)
    yield KEPT
    pictures = "".join(
        f'<figure><a href="{file.name}"><img src="{file.name}" height="480" alt=""></a><figcaption>{file.stem}</figcaption>'
        "</figure>"
        for file in sorted(KEPT.glob("*.png"))
    )
    style = "<style>body { display: flex; flex-wrap: wrap; background: gray }</style>"
    (KEPT / "contact-sheet.html").write_text(f"<!doctype html><title>Every page</title>{style}{pictures}")


IS_DRAWN = """() => !document.querySelector('[aria-busy=true]') && [...document.querySelectorAll('.drawn')].every(
    chart => chart.classList.contains('ready') || !chart.checkVisibility() || chart.getBoundingClientRect().top > innerHeight)"""


def shown(page: Page, service: Service, view: str) -> None:
    """Open a view, with its answer and the charts that are in sight."""
    page.goto(f"{service.address}/{VIEWS[view]}")
    if view == "docs":
        page.locator(".opblock").last.wait_for()
        return
    answered(page)
    question = view.removeprefix("sizing-")
    if view.startswith("sizing-") and question != QUESTIONS[0]:
        asked_for(page, question)
    page.wait_for_function(IS_DRAWN)


@pytest.mark.usefixtures("rest")  # stores what the pages show
@pytest.mark.long(minutes=4)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_whole(
    browser: Browser,
    service: Service,
    folder: Path,
    width: int,
    scheme: Scheme,
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    said: list[str] = []
    context.on("console", lambda message: said.append(message.text))
    context.on("weberror", lambda error: said.append(str(error.error)))
    for view in VIEWS:
        page = context.new_page()
        shown(page, service, view)
        page.screenshot(path=folder / f"{view}-{width}-{scheme}.png")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        found = Axe().run(page, options=WITH_TARGETS)
        assert found.violations_count == 0, f"{view}: {found.generate_report()}"
        page.close()
    context.close()
    assert said == []
