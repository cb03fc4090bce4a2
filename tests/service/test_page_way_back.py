"""The way back on the page in a real browser: the browser's Back, links that are damaged, text that is still typed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import Service
from tests.service.test_page import MILLISECONDS_UNTIL_STUCK, answered, asked_for, linked, typed
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


@pytest.mark.long
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


def opened(page: Page, link: str) -> str:
    """Go to a link as the address line does, and return what is said of it."""
    page.evaluate("document.getElementById('said').textContent = '?'")
    page.evaluate("(link) => { location.href = link; }", link)
    page.locator("#said:not(:text-is('?'))").wait_for(state="attached")
    answered(page)
    return words(page.locator("#said"))


def test_a_damaged_link_stays_in_the_address_to_be_mended(page: Page, service: Service) -> None:
    scenario_linked = REFERENCE_SCENARIO | {"checkpoint": {"interval_seconds": "2h"}}
    link = linked(service, scenario_linked)
    assert "not whole" in opened(page, link[:-20])
    assert page.url == link[:-20], "it is still there"
    assert page.locator("[id='checkpoint.interval_seconds']").input_value() == "4h"
    for end in ("", ".", ")", "%20"):
        assert opened(page, link + end) == ""
        assert scenario(page) == scenario_linked
    typed(page, "cluster.num_gpus", "2048")
    assert page.url != link, "what is typed stands in the address again"


@pytest.mark.long
def test_a_link_that_holds_what_cannot_be_shown_says_that_it_is_not_whole(page: Page, service: Service) -> None:
    unpriced = {"offers": [{"name": "a", "prices": None}]}
    purchases = [{"offers": [None]}, unpriced, {"offers": [], "growth": []}, [], None]
    links = [linked(service, REFERENCE_SCENARIO, purchase=purchase) for purchase in purchases]
    for link in (f"{service.address}/#constructor", f"{service.address}/#toString", *links):
        assert "not whole" in opened(page, link)
        assert words(page.locator("#problems")) == ""
        assert words(page.locator("#shown .title")) == "megatron-1t"
    text = {"storage": {"profile": "fast"}}
    assert opened(page, linked(service, REFERENCE_SCENARIO | text)) == ""
    assert scenario(page)["storage"] == text["storage"]


@pytest.mark.long
def test_json_that_is_typed_is_taken_at_once_and_stays_while_it_is_broken(page: Page) -> None:
    two_hours = REFERENCE_SCENARIO | {"checkpoint": {"interval_seconds": "2h"}}
    typed(page, "json", json.dumps(two_hours))
    page.reload()
    answered(page)
    assert scenario(page) == two_hours
    page.locator("#more, #whole").evaluate_all("(all) => all.forEach((each) => (each.open = true))")
    text = page.locator("#json")
    text.fill('{"model": ')
    typed(page, "cluster.num_gpus", "2048")
    assert text.input_value() == '{"model": '
    assert "This is no JSON document" in words(page.locator("#json-problem"))
    text.fill("")
    text.blur()
    assert scenario(page)["cluster"]["num_gpus"] == 2048
    assert words(page.locator("#json-problem")) == ""
    text.fill('{"model": ')
    page.get_by_role("button", name="Start again").click()
    assert scenario(page)["checkpoint"]["interval_seconds"] == "4h"
    assert words(page.locator("#json-problem")) == ""
    answered(page)
