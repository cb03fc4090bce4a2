"""The form of the page in a real browser: fields, sliders, models, layouts, saving, and answers that follow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import Service, bearer
from tests.service.test_page import MILLISECONDS_UNTIL_STUCK, PASTE, answered, asked_for, figures, open_tables, typed
from tests.testbed.browser import words
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Route

INTERVAL = "checkpoint.interval_seconds"
BANDWIDTH = "storage.profile.write_bytes_per_second"
MAX_LAYOUT_SHIFT = 0.1
"""Good, by web.dev's Core Web Vitals."""
REFUSED = re.compile("status of (401|404|422|503) ")
"""What the browser says of answers that tests ask for."""
COUNT_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
SLID = "(slider) => slider.getAttribute('aria-valuetext')"
THUMB_AND_POINTS = """() => {
  const slider = document.querySelector(".handle input");
  const { left, width } = slider.getBoundingClientRect();
  const thumb = 1.25 * parseFloat(getComputedStyle(document.documentElement).fontSize);
  const points = [...document.querySelectorAll("figure[data-handle] .mark-symbol.role-mark path")];
  return [
    left + thumb / 2 + (slider.valueAsNumber / Number(slider.max)) * (width - thumb),
    points.map((point) => point.getBoundingClientRect()).map((box) => box.left + box.width / 2),
  ];
}"""
MAX_PIXELS_ASIDE = 2.5
"""Between the handle and the point: half a step of the handle, rounded."""
CHOOSE_WRONG = """(field) => {
  if (field.tagName === "SELECT") field.append(new Option("?", "?"));
  field.value = "?";
  field.dispatchEvent(new Event("input"));
}"""


@pytest.fixture
def page(browser: Browser, service: Service) -> Iterator[Page]:
    """The page as a new visitor has it; fails at the end where anything was said on the console."""
    said: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    context.add_init_script(COUNT_SHIFTS)
    context.on("console", lambda message: said.append(message.text))
    context.on("weberror", lambda error: said.append(str(error.error)))
    opened = context.new_page()
    opened.goto(f"{service.address}/")
    answered(opened)
    open_tables(opened)
    opened.evaluate("document.querySelectorAll('#more, #more .block').forEach((each) => (each.open = true))")
    yield opened
    context.close()
    assert [text for text in said if not REFUSED.search(text)] == []


DEFAULTS = {
    "reliability.detection_seconds": "72.60 s",
    "targets.max_overhead_fraction": "5.00 %",
    "parallelism.context": "1",
}


QUESTIONS = {"requirements": "4096", "layouts": "3584", "offers": "4096", "techniques": "4096", "simulation": "4096"}
"""With the GPUs to which one step of the slider leads."""


def field(page: Page, path: str) -> Locator:
    return page.locator(f"[id='{path}']")


def slider(page: Page, path: str) -> Locator:
    return page.locator(f"#fields [data-slider='{path}']")


def scenario(page: Page) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(page.locator("#json").input_value())
    return document


def pressed(page: Page, place: Locator, key: str) -> None:
    with page.expect_response(lambda response: response.request.method == "POST"):
        place.press(key)
    answered(page)


def drop(page: Page, text: str) -> None:
    with page.expect_response(lambda response: response.request.method == "POST"):
        page.evaluate(
            """(text) => {
              const given = new DataTransfer();
              given.items.add(new File([text], "given.json"));
              document.getElementById("scenario").dispatchEvent(new DragEvent("drop", { dataTransfer: given }));
            }""",
            text,
        )
    answered(page)


def test_config_files_become_the_scenario_and_what_is_missing_is_asked_for(page: Page, tmp_path: Path) -> None:
    toml = '[model]\nflavor = "8B"\n[parallelism]\ntensor_parallel_degree = 2\nunheard_of = 1\n[checkpoint]\ninterval = 500\n'
    (tmp_path / "train.toml").write_text(toml)
    page.locator("#config-files").set_input_files(tmp_path / "train.toml")
    page.locator("#imported-gpus").wait_for()
    assert "parallelism.unheard_of is not known" in words(page.locator("#imported"))
    assert scenario(page)["model"] == REFERENCE_SCENARIO["model"], "not yet taken"
    assert page.locator("#shown").get_attribute("class") == "stale"
    page.get_by_text("“GPUs”: ").wait_for()
    page.locator("#imported-gpus").fill("many")
    page.get_by_text("“GPUs of this training” must be").wait_for()
    with page.expect_response(lambda response: response.url.endswith("/v1/sizings") and response.status == 200):
        page.locator("#imported-gpus").fill("1,024")
    answered(page)
    taken = scenario(page)
    assert (taken["model"], taken["parallelism"]["data"]) == ({"preset": "llama-3.1-8b"}, 512)
    assert taken["storage"] == REFERENCE_SCENARIO["storage"]
    assert "llama-3.1-8b" in words(page.locator("#shown"))
    (tmp_path / "pic.png").write_bytes(b"\x89PNG\0")
    page.locator("#config-files").set_input_files(tmp_path / "pic.png")
    page.get_by_text("pic.png is no text: drop a config file in TOML, YAML or JSON, or a launch script.").wait_for()
    (tmp_path / "other.toml").write_text(toml)
    page.locator("#config-files").set_input_files(tmp_path / "other.toml")
    page.get_by_text("In the place of train.toml: files of one training are dropped together.").wait_for()
    assert page.locator("#imported-gpus").input_value() == ""
    (tmp_path / "train.sh").write_text("torchrun --nproc_per_node 8 --nnodes 4 train.py\n")
    page.locator("#config-files").set_input_files(tmp_path / "train.sh")
    page.locator("#imported").get_by_text("Read as other.toml").get_by_text("train.sh").wait_for()


def test_every_field_explains_itself_and_shows_its_error_beside_it(page: Page) -> None:
    paths = page.locator("#fields [data-field]").evaluate_all("(fields) => fields.map((each) => each.id)")
    assert len(paths) > 35
    for path in paths:
        assert field(page, path).evaluate("(each) => each.labels[0].innerText") != "", path
        assert (page.locator(f"[id='{path}-about']").text_content() or "").endswith("."), path
    for path in paths[:: len(paths) // 6]:
        one = field(page, path)
        one.focus()
        assert page.locator(f"[id='{path}-about']").inner_text().endswith("."), path
        with page.expect_response(lambda response: response.status == 422):
            one.evaluate(CHOOSE_WRONG)
        page.locator(f"[id='{path}'][aria-invalid=true]").wait_for()
        assert page.locator(f"[id='{path}-problem']").inner_text() != "", path
        assert page.locator("#problems").inner_text() == "", path
        with page.expect_response(lambda response: response.status == 200):
            page.get_by_role("button", name="Start again").click()
        page.wait_for_selector("#fields:not(:has([aria-invalid]))")


@pytest.mark.long
def test_a_slider_and_its_field_are_in_step(page: Page) -> None:
    pressed(page, slider(page, INTERVAL), "ArrowLeft")
    assert field(page, INTERVAL).input_value() == "3h" == scenario(page)["checkpoint"]["interval_seconds"]
    assert "every 3.00 h" in figures(page)
    pressed(page, slider(page, BANDWIDTH), "Home")
    assert scenario(page)["storage"]["profile"]["write_bytes_per_second"] == "1 GB/s"
    typed(page, BANDWIDTH, "101 GB/s")
    assert slider(page, BANDWIDTH).evaluate(SLID) == "100 GB/s"
    pressed(page, slider(page, "cluster.num_gpus"), "ArrowRight")
    assert scenario(page)["cluster"]["num_gpus"] == 4096
    assert "512 x dgx-a100; data 8, chosen for you" in words(page.locator("#shown"))


@pytest.mark.long
def test_a_slider_that_has_the_focus_follows_what_was_typed_beside_it(page: Page) -> None:
    typed(page, "model", "llama-3.1-8b")
    with page.expect_response(lambda response: response.request.method == "POST"):
        field(page, "cluster.num_gpus").fill("8")
        field(page, "cluster.num_gpus").press("Tab")
    answered(page)
    focused = slider(page, "cluster.num_gpus")
    assert focused.evaluate("(slider) => slider === document.activeElement")
    assert focused.evaluate(SLID) == "8"
    pressed(page, focused, "ArrowRight")
    assert scenario(page)["cluster"]["num_gpus"] == 16


@pytest.mark.long
def test_an_open_field_shows_its_default_and_what_is_missing_or_has_no_unit_is_said_beside_its_field(
    page: Page,
) -> None:
    shown = {path: field(page, path).get_attribute("placeholder") for path in DEFAULTS}
    assert shown == DEFAULTS
    for path, bare, whole in ((BANDWIDTH, "120", "120 GB/s"), (INTERVAL, "4", "4h")):
        problem = page.locator(f"[id='{path}-problem']")
        typed(page, path, bare)
        assert "without a unit" in problem.inner_text()
        assert whole in problem.inner_text()
        typed(page, path, whole)
        assert problem.inner_text() == ""
    for path, value, said in (
        ("costs.per_terabyte", "x", "A terabyte: must be a number, got 'x'"),
        ("parallelism.tensor", "-1", "Tensor parallel: must be at least 1, got -1"),
    ):
        before = field(page, path).input_value()
        typed(page, path, value)
        assert words(page.locator(f"[id='{path}-problem']")).startswith(said)
        typed(page, path, before)
    typed(page, "storage.profile.read_bytes_per_second", "")
    shown_below = words(page.locator("#shown"))
    assert "give “Read bandwidth” or “a calibration”" in shown_below
    assert "storage.profile.read_bytes_per_second" not in shown_below


@pytest.mark.long
def test_what_was_typed_is_still_there_when_others_come_and_go(page: Page) -> None:
    typed(page, INTERVAL, "2h")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "answer"
    assert field(page, INTERVAL).input_value() == "2h"
    rate = field(page, "reliability.failures_per_node_day")
    before = rate.input_value()
    assert before
    for mtbf, left in (("3h", ""), ("4h", ""), ("", before)):
        typed(page, "reliability.mtbf_seconds", mtbf)
        assert rate.input_value() == left
    asked_for(page, "offers")
    amount = field(page, "offers.0.prices.0.amount")
    typed(page, "offers.0.prices.0.amount", "4321")
    page.get_by_role("button", name="Add a price").click()
    answered(page)
    assert amount.input_value() == "4321"
    typed(page, "offers.0.prices.0.amount", "")
    typed(page, "offers.0.prices.0.amount", "€4")
    said = page.locator("[id='offers.0.prices.0.amount-problem']").inner_text()
    assert "in the currency of the other prices" in said, "of the second row"
    assert said.startswith("Price 2, parallel file system: ")
    page.get_by_role("button", name="Remove price 2").click()
    answered(page)
    assert amount.input_value() == ""


@pytest.mark.long
def test_an_emptied_table_asks_nothing_until_a_column_has_a_value(page: Page) -> None:
    asked_for(page, "offers")
    asked: list[str] = []
    page.on("request", lambda request: asked.extend([request.url] * (request.method == "POST")))
    page.get_by_role("button", name="Empty table").click()
    page.locator("#problems").get_by_text("No offer has a value yet: type a known storage system").wait_for()
    answered(page)
    assert asked == []
    assert page.locator("#problems .problem").count() == 0
    assert page.locator("#shown").get_attribute("class") == "stale"
    typed(page, "offers.0.prices.0.amount", "5")
    problem = words(page.locator("[id='offers.0.storage.preset-problem']"))
    assert problem.startswith("Known storage system, Offer 1: must have exactly one of preset, profile, calibration")
    assert problem.endswith("found none: give one.")
    assert page.locator("#problems").inner_text() == ""
    assert page.locator("[aria-invalid]").count() == 1, "of the empty columns nothing is asked"


@pytest.mark.long
def test_ranges_of_a_table_are_seen_and_a_storage_system_beside_rates_is_marked_where_it_stands(page: Page) -> None:
    asked_for(page, "offers")
    page.evaluate(
        PASTE,
        "Name\tdisk\tflash\nWrite (GB/s)\t40\t150\nRead (GB/s)\t90\t300\n"
        "range of storage.profile.write_bytes_per_second, low\t30 GB/s\t\n"
        "range of storage.profile.write_bytes_per_second, high\t50 GB/s\t\n",
    )
    row = page.get_by_role("row", name="Range: write bandwidth")
    row.wait_for()
    assert [words(cell) for cell in row.locator("td").all()] == ["low 30 GB/s, high 50 GB/s", ""]
    typed(page, "offers.1.storage.preset", "disk-array")
    assert field(page, "offers.1.storage.preset").get_attribute("aria-invalid") == "true"
    page.evaluate(PASTE, "Name\tdisk\t\nWrite (GB/s)\t40\t150")
    page.get_by_text("line 1, column 3 names no offer, yet line 2, column 3 has a figure of it").wait_for()


@pytest.mark.long
def test_a_pasted_table_with_the_labels_of_the_page_takes_the_place_of_all_offers_and_is_answered(page: Page) -> None:
    asked_for(page, "offers")
    page.get_by_role("button", name="Empty table").click()
    answered(page)
    with page.expect_response(lambda response: response.url.endswith("/v1/decisions")):
        page.evaluate(
            PASTE,
            "Name\tdisk\tflash\nWrite (GB/s)\t40\t150\nRead bandwidth\t90 GB/s\t300 GB/s\n"
            "Usable capacity\t1 PB\t1 PB\nPrice per terabyte\t150\t250",
        )
    answered(page)
    assert "2 offers are read; they replace those before: disk, flash." in words(page.locator("#offers-said"))
    assert "2 offers over" in words(page.locator("#shown"))
    names = page.locator("#offers thead [data-field]")
    assert [each.input_value() for each in names.all()] == ["disk", "flash"]
    assert page.locator("[data-price]").count() == 2, "no row of a price that nobody typed"
    page.evaluate(PASTE, "Name\tdisk\nRead bandwidth\t90 GB/s\nNotes\tfast")
    page.get_by_text("line 3, column 1 ('Notes') is no rate, capacity or price of an offer").wait_for()
    page.evaluate("void dispatchEvent(new ErrorEvent('error', { error: new Error('torn') }))")
    page.locator("#shown.stale").wait_for()
    assert words(page.locator("#problems")) == "No answer: torn"


@pytest.mark.long
def test_every_question_shows_its_fields_with_their_sliders(page: Page) -> None:
    for question, num_gpus in QUESTIONS.items():
        asked_for(page, question)
        for path, key, value in (("cluster.num_gpus", "ArrowRight", num_gpus), (INTERVAL, "ArrowLeft", "3h")):
            pressed(page, slider(page, path), key)
            assert field(page, path).input_value() == value
        assert page.locator("#problems").inner_text() == ""
        assert field(page, BANDWIDTH).is_hidden() is (question == "offers")
        assert field(page, "parallelism.tensor").is_hidden() is (question == "layouts")
        if question == "layouts":
            assert page.get_by_role("button", name="Find layouts that fit").is_hidden()
        if question == "offers":
            assert not page.get_by_role("group", name="Prices").is_visible()
        with page.expect_response(lambda response: response.request.method == "POST"):
            page.get_by_role("button", name="Start again").click()
        answered(page)
    asked_for(page, "answer")
    assert field(page, BANDWIDTH).input_value() == "273 GB/s"
    assert field(page, "parallelism.tensor").is_visible()


@pytest.mark.long
def test_the_handle_stands_below_the_point_that_it_moves(page: Page) -> None:
    for width, interval in ((390, "1min"), (390, "7d"), (1280, "10min"), (1280, "4h")):
        page.set_viewport_size({"width": width, "height": 900})
        typed(page, INTERVAL, interval)
        page.locator("figure[data-handle]").scroll_into_view_if_needed()
        page.locator("figure[data-handle] .drawn.ready").wait_for()
        thumb, points = page.evaluate(THUMB_AND_POINTS)
        assert min(abs(point - thumb) for point in points) < MAX_PIXELS_ASIDE, (width, interval)


@pytest.mark.long
def test_links_that_lead_nowhere_or_are_too_long_are_said(page: Page) -> None:
    for damaged in ("00000000-0000-0000-0000-000000000000", "0"):
        page.evaluate(f"location.hash = 'saved-{damaged}'")
        page.locator("#said:not(:empty)").wait_for()
        said = words(page.locator("#said"))
        assert said.startswith("No saved scenario stands under this link")
        assert said.endswith("This is the first example.")
        page.locator("#said").evaluate("(place) => place.replaceChildren()")
    assert field(page, "model").input_value() == REFERENCE_SCENARIO["model"]["preset"]
    assert page.locator("#too-long").is_hidden()
    incompressible = "".join(chr(0x4E00 + number * 7919 % 20_000) for number in range(4000))
    typed(page, "model", json.dumps({"model_type": incompressible}))
    page.locator("#too-long").wait_for()
    assert page.get_by_role("button", name="Save", exact=True).is_visible()


@pytest.mark.long
def test_the_interval_is_dragged_below_its_chart(page: Page) -> None:
    handle = page.get_by_label("Try another interval")
    handle.scroll_into_view_if_needed()
    page.locator("figure:has(.handle) .drawn.ready").wait_for()
    box = handle.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.6, middle)
    page.mouse.down()
    for part in (0.5, 0.2, 0.005):
        with page.expect_response(lambda response: response.request.method == "POST"):
            page.mouse.move(box["x"] + box["width"] * part, middle)
        answered(page)
    page.mouse.up()
    assert field(page, INTERVAL).input_value() == handle.evaluate(SLID) == "1min"
    assert "every 60.00 s" in figures(page)
    pressed(page, handle, "PageUp")
    longer = field(page, INTERVAL).input_value()
    assert longer == handle.evaluate(SLID) == "2.5min"
    assert "current: 150.00 s" in words(page.locator("figure:has(.handle) .drawn.ready"))


@pytest.mark.long
def test_another_model_has_a_size_and_a_layout_of_its_own_typed_or_dropped_as_a_file(page: Page) -> None:
    assert "13.80 TB" in figures(page)
    typed(page, "model", "400B")
    assert "5.600 TB" in figures(page)
    assert "13.80 TB" not in figures(page)
    assert field(page, "checkpoint.observed_bytes").input_value() == ""
    for name in ("llama-3.1-8b", "deepseek-v3"):
        typed(page, "model", name)
        assert page.locator("[aria-invalid]").count() == 0
        assert "chosen for you)" in words(page.locator("#shown"))
    typed(page, "parallelism.tensor", "8")
    typed(page, INTERVAL, "2h")
    assert field(page, "parallelism.tensor").input_value() == "8"
    drop(page, json.dumps({"metadata": {"total_parameters": 70_000_000_000}, "weight_map": {"a": "a.safetensors"}}))
    assert "70,000,000,000 parameters" in page.locator("#shown").inner_text()
    drop(page, json.dumps({"metadata": {"total_size": 140_000_000_000}, "weight_map": {"a": "a.safetensors"}}))
    assert "config.json" in page.locator("#model-problem").inner_text()


@pytest.mark.long
def test_what_another_model_clears_is_said_and_comes_back(page: Page) -> None:
    cleared, before = page.locator("#cleared"), scenario(page)
    assert cleared.is_hidden()
    for text in ("", "4", "400B"):  # as it is typed
        field(page, "model").fill(text)
    answered(page)
    lost = "Observed size 13.8 TB, Tensor parallel 8, Pipeline stages 64, Data parallel 6"
    assert words(cleared) == f"Cleared, as of the former model: {lost}. Undo"
    typed(page, "parallelism.tensor", "4")
    assert "Tensor parallel" not in words(cleared)
    typed(page, INTERVAL, "2h")
    with page.expect_response(lambda response: response.request.method == "POST"):
        cleared.get_by_role("button", name="Undo").click()
    assert scenario(page) == {**before, "checkpoint": {**before["checkpoint"], "interval_seconds": "2h"}}
    assert cleared.is_hidden()
    assert page.evaluate("document.activeElement.id") == "model"
    typed(page, "model", "400B")
    assert cleared.is_visible()
    with page.expect_response(lambda response: response.request.method == "POST"):
        page.get_by_role("button", name="Start again").click()
    assert cleared.is_hidden()


@pytest.mark.long
def test_what_a_slider_of_gpus_clears_is_said_and_comes_back(page: Page) -> None:
    cleared, before = page.locator("#cleared"), scenario(page)
    for _ in range(2):
        pressed(page, slider(page, "cluster.num_gpus"), "ArrowRight")
    assert words(cleared) == "Cleared, as the number of GPUs decides it: Data parallel 6. Undo"
    with page.expect_response(lambda response: response.request.method == "POST"):
        cleared.get_by_role("button", name="Undo").click()
    assert scenario(page) == before
    pressed(page, slider(page, "cluster.num_gpus"), "ArrowRight")
    typed(page, "cluster.num_gpus", "")
    assert scenario(page)["parallelism"]["data"] == before["parallelism"]["data"], "as nothing else says it"
    assert cleared.is_hidden()


def test_gpus_typed_first_leave_the_degrees_open_that_nobody_typed(page: Page) -> None:
    typed(page, "cluster.num_gpus", "1000")
    assert "parallelism" not in scenario(page)
    assert page.locator("[aria-invalid]").count() == 0
    assert "Data parallel 6" in words(page.locator("#cleared"))
    typed(page, "parallelism.tensor", "4")
    typed(page, "parallelism.data", "2")
    typed(page, "cluster.num_gpus", "2048")
    assert scenario(page)["parallelism"] == {"tensor": 4}, "which was typed"


@pytest.mark.long
def test_the_same_number_of_gpus_as_it_is_printed_clears_no_degree(page: Page) -> None:
    asked = scenario(page)
    degrees = {name: degree for name, degree in asked["parallelism"].items() if name != "data"}
    counted = {**asked, "cluster": {**asked["cluster"], "num_gpus": 3072}, "parallelism": degrees}
    typed(page, "json", json.dumps(counted))
    typed(page, "cluster.num_gpus", "3,072")
    assert scenario(page)["parallelism"] == degrees
    typed(page, "cluster.num_gpus", "3,071")
    assert "parallelism" not in scenario(page)


def test_numbers_are_typed_as_they_are_printed(page: Page) -> None:
    typed(page, "cluster.num_gpus", "1,536")
    assert "1,536 GPUs" in words(page.locator("#shown"))
    typed(page, "costs.run_seconds", "90d")
    typed(page, "costs.per_lost_gpu_hour", "2.80")
    shown = figures(page)
    typed(page, "costs.per_lost_gpu_hour", "$2.80")
    assert figures(page) == shown
    assert page.locator("[aria-invalid]").count() == 0
    typed(page, "cluster.num_gpus", "15,36")
    assert words(page.locator("[id='cluster.num_gpus-problem']")) == (
        "GPUs: must be a whole number, got '15,36': give a whole number."
    )


@pytest.mark.long
def test_a_price_that_is_none_is_said_at_its_cell_and_changes_no_verdict(page: Page) -> None:
    asked_for(page, "offers")
    before = words(page.locator(".verdict"))
    for wrong, said in (("abc", "must be a number, got 'abc': give a number."), ("-5", "must be at least 0.0, got -5")):
        typed(page, "offers.0.prices.0.amount", wrong)
        assert field(page, "offers.0.prices.0.amount").get_attribute("aria-invalid") == "true"
        problem = words(page.locator("[id='offers.0.prices.0.amount-problem']"))
        assert problem.startswith(f"Price 1, parallel file system: {said}")
        assert page.locator("#shown").get_attribute("class") == "stale"
        assert words(page.locator(".verdict")) == before
    typed(page, "offers.0.prices.0.amount", "200")
    assert page.locator("[aria-invalid], #shown.stale").count() == 0


@pytest.mark.long
def test_an_answer_that_is_late_says_so_and_that_of_another_question_goes(page: Page) -> None:
    waiting: list[Route] = []
    page.route("**/v1/decisions", lambda route: waiting.append(route))  # noqa: PLW0108 - playwright marks its handlers
    page.evaluate("location.hash = '#offers'")
    page.locator("#shown.waiting").wait_for(state="attached")
    assert words(page.locator("#shown")) == ""
    for route in waiting:
        route.continue_()
    answered(page)
    assert page.locator("#shown").get_attribute("class") == ""
    page.unroute("**/v1/decisions")


@pytest.mark.long
def test_one_file_is_made_at_a_time_and_what_was_said_of_it_goes_with_a_change(page: Page) -> None:
    made: list[Route] = []
    busy = json.dumps({"status": 422, "detail": "no such thing", "errors": []})
    page.route("**/v1/sizings", lambda route: made.append(route))  # noqa: PLW0108 - playwright marks its handlers
    button = page.get_by_role("button", name="PDF")
    button.dispatch_event("click")
    button.dispatch_event("click")
    page.locator("#said").get_by_text("The PDF is being made.").wait_for()
    assert button.get_attribute("aria-disabled") == "true"
    (route,) = made
    route.fulfill(status=422, body=busy, headers={"content-type": "application/problem+json"})
    page.get_by_text("No PDF: no such thing").wait_for()
    page.unroute("**/v1/sizings")
    assert button.get_attribute("aria-disabled") == "false"
    page.get_by_role("button", name="Start again").click()
    assert words(page.locator("#said")).startswith("This is the first example.")


@pytest.mark.long
def test_a_service_that_is_busy_is_asked_again_without_a_change(page: Page) -> None:
    problem = {"field": "the service", "sentence": "the service is busy: try again."}
    busy = json.dumps({"status": 503, "detail": problem["sentence"], "errors": [problem]})
    headers = {"content-type": "application/problem+json", "retry-after": "1"}
    page.route("**/v1/sizings", lambda route: route.fulfill(status=503, body=busy, headers=headers), times=1)
    with page.expect_response(lambda response: response.status == 200):
        field(page, INTERVAL).fill("2h")
        page.get_by_text(problem["sentence"]).wait_for()
        assert words(page.locator("#problems")).endswith("It is asked again in 1 s.")
    answered(page)
    assert "every 2.00 h" in figures(page)
    assert page.locator("#problems").inner_text() == ""


@pytest.mark.long
def test_a_layout_that_fits_is_adopted(page: Page) -> None:
    page.get_by_role("button", name="Find layouts that fit").click()
    with page.expect_response(lambda response: response.url.endswith("/v1/sizings")):
        page.get_by_role("button", name="tensor 8, pipeline 48, data 8").click()
    answered(page)
    assert scenario(page)["parallelism"] == {"tensor": 8, "pipeline": 48, "data": 8}
    assert field(page, "parallelism.pipeline").input_value() == "48"


def test_a_scenario_is_saved_with_a_token_and_opened_by_its_link(page: Page, service: Service) -> None:
    typed(page, INTERVAL, "2h")
    page.get_by_text("Save under a name").click()
    page.get_by_label("Name of the scenario").fill("Two hours")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("type one into the field Token").wait_for()
    page.get_by_label("Token").fill(service.token)
    page.get_by_role("button", name="Save", exact=True).click()
    link = page.locator("#saved a").first
    link.wait_for()
    assert page.locator("#saved").inner_text().startswith("Saved as Two hours: ")
    address = link.get_attribute("href") or ""
    stored = httpx.get(
        f"{service.address}/v1/scenarios/{address.split('saved-')[1]}",
        headers=bearer(service.token),
        timeout=SECONDS_UNTIL_STUCK,
    )
    assert stored.json()["scenario"]["checkpoint"]["interval_seconds"] == "2h"
    asked_for(page, "offers")
    page.get_by_label("Name of the scenario").fill("With offers")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Saved as With offers: ").wait_for()
    assert "scenario without the offers, which As CSV and As xlsx keep" in page.locator("#saved").inner_text()
    link.click()
    page.wait_for_url("**/#*")
    answered(page)
    assert field(page, INTERVAL).input_value() == "2h"


def test_only_the_latest_question_is_answered(page: Page) -> None:
    held: list[Route] = []
    page.route("**/v1/sizings", lambda route: held.append(route))  # noqa: PLW0108 - Playwright keeps a mark on it
    for interval in ("1h", "2h"):
        with page.expect_request("**/v1/sizings"):
            field(page, INTERVAL).fill(interval)
    page.wait_for_function("document.getElementById('answer').ariaBusy === 'true'")
    first, second = held
    assert first.request.failure == "net::ERR_ABORTED"
    second.continue_()
    answered(page)
    assert "every 2.00 h" in figures(page)


@pytest.mark.long
def test_nothing_moves_by_itself(page: Page) -> None:
    """As a visitor has the page: what a test opens by script moves all that is below it."""
    page.reload()
    answered(page)
    page.locator(".drawn").first.scroll_into_view_if_needed()
    page.locator(".drawn.ready").first.wait_for()
    typed(page, "storage", "10 GB/s")
    typed(page, INTERVAL, "soon")
    page.locator(f"[id='{INTERVAL}'][aria-invalid=true]").wait_for()
    assert page.evaluate("window.shifted") < MAX_LAYOUT_SHIFT


@pytest.mark.long
def test_what_the_answer_chose_stands_in_its_field_until_another_value_does(page: Page) -> None:
    tensor, block = field(page, "parallelism.tensor"), page.locator("[data-title='Cluster and layout'] .given")
    assert words(block) == "4 given"
    typed(page, "model", "400B")
    assert tensor.get_attribute("placeholder") == "8, chosen for you"
    assert words(block) == "1 given, 5 chosen"
    assert page.locator("#more > summary .given").inner_text() == "9 given, 5 chosen"
    about = page.locator("[id='parallelism.tensor-about']").text_content() or ""
    assert about.endswith("Chosen for you: has the fewest model-parallel GPUs of 16 layouts that fit 3,072 GPUs.")
    assert field(page, "retention.keep_last").get_attribute("placeholder") == "1", "a default is not marked"
    typed(page, "parallelism.tensor", "4")
    assert words(block) == "2 given, 4 chosen"
    with page.expect_response(lambda response: response.request.method == "POST"):
        field(page, "checkpoint.format").select_option("")
    answered(page)
    assert field(page, "checkpoint.format").locator("option").first.inner_text() == "torch-dist (default)"
    typed(page, INTERVAL, "4")
    page.locator(f"[id='{INTERVAL}'][aria-invalid=true]").wait_for()
    assert page.locator("[data-chosen]").count() == 0, "there is no answer"
