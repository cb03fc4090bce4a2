"""Two ways of a new visitor from the first sight to what is kept, by their steps; the third is that of three offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.service.conftest import Service
from tests.service.test_page import MILLISECONDS_UNTIL_STUCK, answered
from tests.service.test_page_further import visited
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result
from tests.testbed.browser import words

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Locator, Page

MAX_STEPS_WITH_A_CONFIG = 5
"""The config file of a trainer, GPUs, bandwidth, interval, PDF."""
MAX_STEPS_OF_A_BENCHMARK = 13
"""Token; storage system by name; its page, the result, a calibration and its use; three to save; three to share."""


class Visitor:
    """Who uses the page, step by step: what is pressed, typed or given counts as one each."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.num_steps = 0

    def press(self, name: str, *, role: str = "button") -> None:
        self.num_steps += 1
        self.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]  # a role of ARIA

    def type(self, field: str, text: str) -> None:
        self.num_steps += 1
        with self.page.expect_response(lambda response: response.request.method == "POST"):
            self.page.locator(f"[id='{field}']").fill(text)
            self.page.keyboard.press("Tab")
        answered(self.page)

    def type_beside(self, label: str, text: str) -> None:
        self.num_steps += 1
        self.page.get_by_label(label).first.fill(text)
        self.page.keyboard.press("Enter")

    def give(self, place: Locator, file: Path) -> None:
        self.num_steps += 1
        place.set_input_files(file)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context()
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    yield context
    context.close()


def test_a_training_config_at_hand_leads_to_the_pdf(
    context: BrowserContext, rest: httpx.Client, tmp_path: Path
) -> None:
    (tmp_path / "train.toml").write_text('[model]\nflavor = "8B"\n[parallelism]\ntensor_parallel_degree = 2\n')
    visitor = Visitor(visited(context, rest, "/"))
    visitor.give(visitor.page.locator("#config-files"), tmp_path / "train.toml")
    visitor.page.locator("#imported-gpus").wait_for()
    visitor.type("imported-gpus", "1,024")
    visitor.type("storage", "40 GB/s")
    visitor.type("checkpoint.interval_seconds", "1h")
    assert "llama-3.1-8b" in words(visitor.page.locator("#shown"))
    with visitor.page.expect_download() as kept:
        visitor.press("PDF")
    assert kept.value.path().read_bytes().startswith(b"%PDF")
    assert visitor.num_steps <= MAX_STEPS_WITH_A_CONFIG


def test_a_benchmark_is_calibrated_used_saved_shared_and_found_again(
    context: BrowserContext, browser: Browser, rest: httpx.Client, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "result.json").write_text(result(FULL_SCAN, run_id="of-the-way").model_dump_json())
    visitor = Visitor(visited(context, rest, "/storage-systems"))
    visitor.type_beside("What changes something needs a token", service.token)
    visitor.type_beside("Name", "way")
    visitor.press("way", role="link")
    visitor.give(visitor.page.get_by_label("choose files"), tmp_path / "result.json")
    visitor.page.get_by_role("link", name="of-the-way").wait_for()
    visitor.press("Calibrate from all runs")
    with visitor.page.expect_navigation(url="**/#*"):
        visitor.press("Use it")
    answered(visitor.page)
    first = words(visitor.page.locator(".verdict"))
    visitor.num_steps += 1
    visitor.page.get_by_text("Save under a name").click()
    visitor.type_beside("Name of the scenario", "Found again")
    visitor.press("Save")
    visitor.page.get_by_text("Saved as Found again: ").wait_for()
    visitor.press("Library", role="link")
    visitor.press("Share Found again")
    visitor.press("Make a link")
    link = visitor.page.get_by_label("The new link").input_value()
    assert visitor.num_steps <= MAX_STEPS_OF_A_BENCHMARK
    others = browser.new_context()
    others.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    shared = others.new_page()
    shared.goto(link)
    answered(shared)
    assert words(shared.locator(".verdict")) == first
    others.close()
