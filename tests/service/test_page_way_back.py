"""The way back on the page in a real browser: the browser's Back, links that are damaged, text that is still typed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.service.conftest import Service
from tests.service.test_page import MILLISECONDS_UNTIL_STUCK, answered, asked_for, typed
from tests.service.test_page_form import REFUSED, scenario
from tests.testbed.browser import words

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NUM_GPUS = "[id='cluster.num_gpus']"


@pytest.fixture
def page(browser: Browser, service: Service) -> Iterator[Page]:
    """The page as a new visitor has it; fails at the end where anything was said on the console."""
    said: list[str] = []
    context = browser.new_context()
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    context.on("console", lambda message: said.append(message.text))
    context.on("weberror", lambda error: said.append(str(error.error)))
    opened = context.new_page()
    opened.goto(f"{service.address}/")
    answered(opened)
    yield opened
    context.close()
    assert [text for text in said if not REFUSED.search(text)] == []


def went_back(page: Page) -> None:
    """Press the browser's Back, and wait for the answer to what the address holds then."""
    with page.expect_response(lambda response: response.request.method == "POST"):
        page.evaluate("history.back()")  # as the button does, without leaving the field
    answered(page)


def test_back_shows_in_the_focused_field_too_what_the_answer_is_of(page: Page) -> None:
    typed(page, "cluster.num_gpus", "2048")
    asked_for(page, "offers")
    typed(page, "cluster.num_gpus", "1024")
    assert page.evaluate("document.activeElement.id") == "cluster.num_gpus"
    went_back(page)
    assert page.locator(NUM_GPUS).input_value() == "2048"
    assert scenario(page)["cluster"]["num_gpus"] == 2048
    assert "on 2,048 GPUs" in words(page.locator("#shown"))


def named_offers(page: Page) -> list[str]:
    return [each.input_value() for each in page.locator("#offers thead [data-field]").all()]


def test_back_brings_again_what_one_click_took_away(page: Page) -> None:
    asked_for(page, "offers")
    typed(page, "cluster.num_gpus", "2048")
    page.get_by_label("Name, parallel file system").fill("mine")
    page.locator("#shown").get_by_text("mine").first.wait_for()
    answered(page)
    offers = named_offers(page)
    for label, left in (("Empty table", ["Offer 1", "Offer 2", "Offer 3"]), ("Remove mine", offers[1:])):
        page.get_by_role("button", name=label).click()
        assert named_offers(page) == left
        assert "Back in the browser brings the former offers again" in words(page.locator("#offers-said"))
        answered(page)
        went_back(page)
        assert named_offers(page) == offers
        assert words(page.locator("#offers-said")) == ""
    page.get_by_role("button", name="Start again").click()
    assert "Back in the browser" in words(page.locator("#said"))
    assert "mine" not in named_offers(page)
    answered(page)
    went_back(page)
    assert named_offers(page) == offers
    assert page.locator(NUM_GPUS).input_value() == "2048"
    assert words(page.locator("#said")) == ""
