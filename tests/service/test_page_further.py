"""The further pages in a real browser: a benchmark and its calibration, a storage that became slower, jobs, files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe

from service.routes.pages import FURTHER
from sizing.scenario import REFERENCE_SCENARIO
from tests.service.conftest import HOSTILE, Service, bearer, created_token, result_document, stored
from tests.service.test_checkpoint_files import SAFETENSORS
from tests.service.test_page import MILLISECONDS_UNTIL_STUCK, Scheme, answered, typed
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result
from tests.testbed.browser import words

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page, Route

MAX_PIXELS_AWAY = 200
"""Of what belongs together: it is seen at once."""


EMPTY = """(inputs) => inputs.forEach((input) => {
  input.value = "";
  input.dispatchEvent(new Event("input", { bubbles: true }));
})"""
"""Both ends of a range at once: one that stands alone, however shortly, is refused."""

CLICK_AT_ONCE = "(boxes) => boxes.forEach((box) => box.click())"
"""Before the page has taken the first."""


@pytest.fixture
def opened(browser: Browser) -> Iterator[BrowserContext]:
    """A visitor; fails at the end where anything was said on the console, as a policy that was violated is."""
    said: list[str] = []
    context = browser.new_context()
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    context.on("console", lambda message: said.append(message.text))
    context.on("weberror", lambda error: said.append(str(error.error)))
    yield context
    context.close()
    assert said == []


def visited(context: BrowserContext, rest: httpx.Client, path: str) -> Page:
    page = context.new_page()
    page.goto(str(rest.base_url.join(path)))
    answered(page)
    return page


def use_token(page: Page, service: Service) -> None:
    page.get_by_label("What changes something needs a token").fill(service.token)
    page.keyboard.press("Enter")
    page.get_by_text("This tab has the token tests, scope write.").wait_for()
    answered(page)


def upload(page: Page, document: str, folder: Path) -> None:
    file = folder / "result.json"
    file.write_text(document)
    page.get_by_label("choose files").set_input_files(file)


@pytest.mark.long
def test_a_benchmark_is_uploaded_calibrated_and_used(
    opened: BrowserContext, rest: httpx.Client, service: Service, tmp_path: Path
) -> None:
    page = visited(opened, rest, "/storage-systems#page-new")
    assert "No run tells a rate yet" in page.locator("#answer").inner_text()
    use_token(page, service)
    upload(page, result(FULL_SCAN, run_id="of-the-page").model_dump_json(), tmp_path)
    page.get_by_role("link", name="of-the-page").wait_for()
    page.get_by_role("button", name="Calibrate from all runs").click()
    page.get_by_role("button", name="Show").click()
    drawn = page.locator("#calibration .drawn")
    drawn.scroll_into_view_if_needed()
    page.locator("#calibration .drawn.ready").wait_for()
    assert drawn.locator("svg").count() == 4
    assert "Limits of writes" in page.locator("#calibration").inner_text()
    with page.expect_navigation(url="**/#*"):
        page.get_by_role("button", name="Use it").click()
    page.locator(".verdict").wait_for()
    (calibration,) = rest.get("/v1/storage-systems/page-new/calibrations").json()["items"]
    assert json.loads(page.locator("#json").input_value())["storage"] == {"calibration": calibration["id"]}
    assert page.evaluate("Object.keys(sessionStorage)") == ["checkpoint-sizing-token"]
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]


def test_a_storage_that_became_slower_says_so(
    opened: BrowserContext, rest: httpx.Client, service: Service, tmp_path: Path
) -> None:
    page = visited(opened, rest, "/storage-systems#page-slower")
    assert page.locator(".verdict").inner_text() == "No rate is lost."
    use_token(page, service)
    upload(page, json.dumps(result_document("page-slow", seconds=3.0)), tmp_path)
    alarm = page.locator(".verdict.misses")
    alarm.wait_for()
    assert "write by torch-save at 333.3 MB/s, 33.0 % below the level of 497.8 MB/s before" in words(alarm)
    assert "First seen in run page-slow" in words(alarm)
    assert "by tests." in words(alarm)
    assert "No saved scenario rests on a calibration of page-slower." in words(alarm)
    (loss,) = rest.get("/v1/storage-systems/page-slower/alarms").json()
    assert loss["run_id"] == "page-slow"
    page.route("**/v1/storage-systems?*", lambda route: route.fulfill(json={"items": [], "next": None}))
    page.get_by_role("link", name="All storage systems").click()
    page.get_by_role("button", name="Load demo data").click()
    page.get_by_text("Runs that nobody measured").wait_for()
    assert "write by torch-save at 666.7 MB/s, 33.0 % below" in words(page.locator(".verdict.misses"))


def test_what_is_typed_while_a_token_is_taken_in_stays(
    opened: BrowserContext, rest: httpx.Client, service: Service
) -> None:
    page = visited(opened, rest, "/storage-systems")
    held: list[Route] = []
    page.route("**/v1/storage-systems?*", lambda route: held.append(route), times=1)  # noqa: PLW0108 - Playwright keeps a mark on it
    with page.expect_request("**/v1/storage-systems?*"):
        page.get_by_label("What changes something needs a token").fill(service.token)
        page.keyboard.press("Enter")
    page.get_by_label("Name").fill("typed-at-once")
    held[0].continue_()
    answered(page)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="typed-at-once").wait_for()
    assert page.get_by_label("Name").input_value() == ""


def test_what_changes_something_is_refused_without_a_token(
    browser: Browser, rest: httpx.Client, tmp_path: Path
) -> None:
    context = browser.new_context()
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    page = visited(context, rest, "/storage-systems#page-slower")
    upload(page, json.dumps(result_document("page-nobody")), tmp_path)
    page.locator("#problems .problem").wait_for()
    assert "type one into the field Token" in page.locator("#problems").inner_text()
    assert page.evaluate("document.activeElement.id") == "bearer"
    context.close()


def test_a_hostile_name_is_inert_and_its_scenario_opens_and_compares(
    opened: BrowserContext, rest: httpx.Client
) -> None:
    page = visited(opened, rest, "/storage-systems")
    assert HOSTILE in page.locator("#answer").inner_text()
    page = visited(opened, rest, "/scenarios")
    row = page.get_by_role("row", name=HOSTILE).first
    row.get_by_text("13.80 TB").wait_for()
    with page.expect_navigation(url="**/#*"):
        row.get_by_role("button", name="Open").click()
    assert words(page.locator(".verdict")).startswith("Meets the target: overhead 0.351 %")
    page.goto(str(rest.base_url.join("/comparison")))
    page.get_by_role("button", name="Show a demo").wait_for()
    assert "Check two or more boxes above" in words(page.locator(".empty"))
    assert "ckpt-size" not in words(page.locator(".empty"))
    page.get_by_role("button", name="Show a demo").click()
    page.locator("#answer .pill").wait_for()
    assert "Demo: the first example" in words(page.locator(".verdict"))
    page.goto(str(rest.base_url.join("/catalogs")))
    page.get_by_label("Search").fill("LLAMA 70b")
    assert page.get_by_role("row", name="llama-3-70b").is_visible()
    assert page.get_by_role("row", name="gpt2").first.is_hidden()
    page.get_by_label("family").select_option("gpt2")
    assert "0 of" in words(page.locator("[role=search] [role=status]"))
    page.goto(str(rest.base_url.join("/comparison")))
    answered(page)
    boxes = [page.get_by_label("The scenario of this tab"), page.get_by_label(HOSTILE).first]
    page.evaluate(CLICK_AT_ONCE, [box.element_handle() for box in boxes])
    page.locator("#answer h3", has_text="Inputs").or_(page.locator("#answer table").first).first.wait_for()
    assert HOSTILE in page.locator("#answer").inner_text()
    assert not page.title().startswith("owned")


@pytest.mark.long
def test_jobs_on_one_storage_system_are_answered_at_once_and_the_link_holds_them(
    opened: BrowserContext, rest: httpx.Client
) -> None:
    page = visited(opened, rest, "/clusters")
    answer = page.locator("#cluster-answer")
    page.locator("#cluster-answer[aria-busy=false]").wait_for()
    assert "41 jobs on 704 nodes (5,632 GPUs)" in words(answer)
    page.set_viewport_size({"width": 360, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_role("button", name="Add a job").click()
    assert page.evaluate("document.activeElement.id") == "jobs.2.name"
    page.locator("[id='jobs.2.name']").fill(HOSTILE)
    answer.get_by_role("heading", level=2, name="42 jobs on").wait_for()
    answer.get_by_text(HOSTILE).first.wait_for()
    page.wait_for_url("**/clusters#*")
    again = visited(opened, rest, f"/clusters{page.evaluate('location.hash')}")
    again.get_by_role("heading", level=2, name="42 jobs on").wait_for()
    again.get_by_role("button", name=f"Remove {HOSTILE}").click()
    again.get_by_role("heading", level=2, name="41 jobs on").wait_for()


@pytest.mark.long
def test_what_is_typed_of_a_cluster_outlives_a_reload_though_no_answer_came(
    browser: Browser, rest: httpx.Client
) -> None:
    context = browser.new_context()
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    page = visited(context, rest, "/clusters")
    page.locator("#cluster-answer[aria-busy=false]").wait_for()
    tensor, start = page.locator("[id='jobs.0.scenario.parallelism.tensor']"), page.url
    tensor.fill("-1")
    page.locator("[id='jobs.0.scenario.parallelism.tensor-problem']").get_by_text("must be").wait_for()
    page.reload()
    page.locator("[id='jobs.0.scenario.parallelism.tensor-problem']").get_by_text("must be").wait_for()
    assert tensor.input_value() == "-1"
    refused = page.url
    assert refused != start
    context.route("**/v1/clusters", lambda route: route.abort())
    page.locator("[id='jobs.0.name']").fill("mine")
    page.wait_for_url(lambda url: url != refused)
    page.reload()
    page.get_by_role("button", name="Remove mine").wait_for()
    assert tensor.input_value() == "-1"
    context.close()


@pytest.mark.long
def test_what_bandwidth_buys_in_goodput_is_drawn_and_the_link_holds_the_ranges(
    opened: BrowserContext, rest: httpx.Client
) -> None:
    page = visited(opened, rest, "/trade-offs")
    answer = page.locator("#sweep-answer")
    answer.get_by_role("heading", name="best rows of 144").wait_for()
    answer.get_by_text("Pareto front: no other row is better in bandwidth and goodput together.").wait_for()
    answer.locator(".drawn.ready").wait_for()
    page.locator("[id='checkpoint.interval_seconds.num']").fill("3")
    answer.get_by_role("heading", name="best rows of 36").wait_for()
    ends = page.locator("[id='checkpoint.interval_seconds.from'], [id='checkpoint.interval_seconds.to']")
    ends.evaluate_all(EMPTY)
    answer.get_by_role("heading", name="best rows of 12").wait_for()
    again = visited(opened, rest, f"/trade-offs{page.evaluate('location.hash')}")
    again.get_by_role("heading", name="best rows of 12").wait_for()
    assert again.locator("[id='storage.profile.write_bytes_per_second.to']").input_value() == "1 TB/s"
    assert Axe().run(again).violations_count == 0


def test_the_page_waits_for_a_question_that_becomes_a_job(opened: BrowserContext, rest: httpx.Client) -> None:
    def as_job(route: Route) -> None:
        route.continue_(headers={**route.request.headers, "prefer": "respond-async"})

    opened.route("**/v1/clusters", as_job)
    with opened.expect_event("response", lambda response: response.url.endswith("/result")):
        page = visited(opened, rest, "/clusters")
    page.locator("#cluster-answer").get_by_role("heading", level=2, name="41 jobs on").wait_for()


@pytest.mark.long
def test_the_files_of_a_checkpoint_are_listed_and_those_of_an_existing_one_read(
    opened: BrowserContext, rest: httpx.Client, tmp_path: Path
) -> None:
    page = visited(opened, rest, "/files")
    assert "Files 1 to 200 of 512." in words(page.locator("#answer"))
    page.get_by_role("button", name="Next files").click()
    page.get_by_text("Files 201 to 400 of 512.").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("button", name="All files as CSV").click()
    assert len(saved.value.path().read_text().splitlines()) == 1 + 512
    file = tmp_path / "model.safetensors"
    file.write_bytes(SAFETENSORS + bytes(10))
    page.get_by_label("choose a file").set_input_files(file)
    page.get_by_text("To size a run like it: model.num_parameters 64640").wait_for()
    page.get_by_role("button", name="Use it in the form").click()
    page.locator("#model").wait_for()
    answered(page)
    assert page.locator("#model").input_value() == "64640"
    assert page.locator("[id='checkpoint.observed_bytes']").input_value() == ""
    assert "64,640 parameters on 3,072 GPUs" in words(page.locator("#shown"))


def test_what_is_refused_is_said_beside_the_field_and_of_a_file_in_words(
    browser: Browser, rest: httpx.Client, tmp_path: Path
) -> None:
    context = browser.new_context()
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    page = visited(context, rest, "/clusters")
    page.locator("[id='jobs.0.scenario.parallelism.tensor']").fill("-1")
    problem = page.locator("[id='jobs.0.scenario.parallelism.tensor-problem']")
    problem.get_by_text("Tensor parallel: must be").wait_for()
    page = visited(context, rest, "/")
    typed(page, "parallelism.tensor", "-1")
    page.locator("[id='parallelism.tensor-problem']").get_by_text("Tensor parallel: must be").wait_for()
    # The answer before stays, and is read as well as any other: it is grey, and not pale.
    assert page.locator("#shown.stale").evaluate("shown => getComputedStyle(shown).opacity") == "1"
    page.goto(str(rest.base_url.join("/files")))
    page.locator("#problems").get_by_text("parallelism.tensor must be").wait_for()
    page = visited(context, rest, "/trade-offs")
    page.locator("[id='checkpoint.interval_seconds.to']").fill("late")
    page.locator("[id='checkpoint.interval_seconds.to-problem']").get_by_text("To: is not a duration").wait_for()
    page = visited(context, rest, "/files")
    (tmp_path / "model.pt").write_bytes(b"PK")
    page.get_by_label("choose a file").set_input_files(tmp_path / "model.pt")
    page.locator("#problems .problem").wait_for()
    assert "send the index or .metadata that lies beside such a file" in page.locator("#problems").inner_text()
    context.close()


def test_a_scenario_is_shared_opens_read_only_and_is_withdrawn(
    opened: BrowserContext, browser: Browser, rest: httpx.Client, service: Service
) -> None:
    page = visited(opened, rest, "/scenarios")
    use_token(page, service)
    page.get_by_role("button", name=f"Share {HOSTILE}").first.click()
    page.get_by_role("button", name="Make a link").click()
    link = page.get_by_label("The new link").input_value()
    assert link.startswith(str(rest.base_url.join("/shared#ckptlink_")))
    page.locator("#links").get_by_role("row", name="tests").wait_for()
    assert Axe().run(page).violations_count == 0
    visitor = browser.new_context()
    visitor.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    shared = visitor.new_page()
    shared.goto(link)
    answered(shared)
    assert shared.locator("h2.title").inner_text() == HOSTILE
    assert words(shared.locator(".verdict")).startswith("Meets the target: overhead 0.351 %")
    assert shared.locator(".keep button").all_inner_texts() == ["PDF", "HTML", "CSV", "JSON"]
    with shared.expect_download() as download:
        shared.locator(".keep").get_by_role("button", name="CSV").click()
    assert download.value.path().read_text().startswith("field,value")
    assert shared.evaluate("Object.keys(sessionStorage)") == []
    page.get_by_role("button", name="Withdraw").click()
    page.get_by_text("The link is withdrawn.").wait_for()
    shared.reload()
    answered(shared)
    assert "must be the key of a sharing link that has not ended" in shared.locator("#problems").inner_text()
    assert shared.locator("#answer").inner_text() == ""
    visitor.close()


@pytest.mark.long
def test_scenarios_of_one_name_are_told_apart_and_one_is_deleted(
    opened: BrowserContext, rest: httpx.Client, service: Service
) -> None:
    document = {"name": "Saved twice", "scenario": REFERENCE_SCENARIO}
    ids = [rest.post("/v1/scenarios", json=document, headers=bearer(service.token)).json()["id"] for _ in range(2)]
    page = visited(opened, rest, f"/comparison#{','.join(ids)}")
    labels = [page.locator(f"li:has([value='{each}'])") for each in ids]
    assert [words(label).splitlines()[0] for label in labels] == ["Saved twice (2)", "Saved twice"], "the latest first"
    assert [label.locator("time").count() for label in labels] == [1, 1]
    page.locator("#answer table").first.get_by_text("Saved twice (2)").wait_for()
    page = visited(opened, rest, "/scenarios")
    use_token(page, service)
    rows = page.get_by_role("row", name="Saved twice")
    delete = rows.first.get_by_role("button", name="Delete")
    page.once("dialog", lambda dialog: dialog.dismiss())
    delete.click()
    assert rows.count() == 2
    page.once("dialog", lambda dialog: dialog.accept())
    delete.click()
    page.get_by_text("Saved twice is deleted.").wait_for()
    answered(page)
    assert rows.count() == 1
    assert [rest.get(f"/v1/scenarios/{each}").status_code for each in ids] == [httpx.codes.OK, httpx.codes.NOT_FOUND]


@pytest.mark.long
def test_the_audit_log_is_shown_to_admins_alone_and_filtered(
    opened: BrowserContext, rest: httpx.Client, service: Service
) -> None:
    page = visited(opened, rest, "/audit")
    assert "needs a token with scope admin" in page.locator("#answer").inner_text()
    entry = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Audit log")
    assert entry.count() == 0, "hidden"
    page.get_by_role("button", name="Show a demo").click()
    page.get_by_role("row", name="night-bench").wait_for()
    use_token(page, service)
    assert entry.count() == 0, "a token to write does not read it"
    admin = created_token(service.database_url, "admin-of-the-page", scope="admin")
    page.get_by_label("What changes something needs a token").fill(admin)
    page.keyboard.press("Enter")
    page.get_by_text("admin-of-the-page, scope admin.").wait_for()
    entry.wait_for()
    page.get_by_role("button", name="Earlier changes").or_(page.locator("#answer table")).first.wait_for()
    assert Axe().run(page).violations_count == 0
    page.get_by_label("Subject").fill("storage system page-new")
    page.get_by_label("Action").fill("creat")
    page.get_by_label("Since").fill("2020-01-01T00:00")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**subject*")
    rows = page.locator("#answer tbody tr")
    rows.nth(1).wait_for(state="detached")
    rows.get_by_text("storage system page-new").wait_for()
    assert [row.split("\t")[1:4] for row in rows.all_inner_texts()] == [["tests", "create", "storage system page-new"]]
    assert page.get_by_label("Subject").input_value() == "storage system page-new"
    page.goto(str(rest.base_url.join("/")))
    entry.wait_for()


@pytest.mark.long
def test_earlier_changes_follow(opened: BrowserContext, rest: httpx.Client, service: Service) -> None:
    for number in range(60):
        stored(rest, "/v1/storage-systems", {"name": f"page-many-{number}", "description": ""})
    admin = created_token(service.database_url, "admin-of-many", scope="admin")
    page = visited(opened, rest, "/audit#" + quote("subject=storage system page-many-"))
    page.get_by_label("What changes something needs a token").fill(admin)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Earlier changes").click()
    page.get_by_role("row", name="page-many-0", exact=False).last.wait_for()
    assert page.locator("#answer tbody tr").count() == 60


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_everybody_can_use_every_page(browser: Browser, rest: httpx.Client, width: int, scheme: Scheme) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    context.set_default_timeout(MILLISECONDS_UNTIL_STUCK)
    said: list[str] = []
    context.on("console", lambda message: said.append(message.text))
    for path in (*FURTHER, "storage-systems#page-slower"):
        page = visited(context, rest, f"/{path}")
        page.wait_for_selector("[aria-busy=true]", state="detached")
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.locator("nav [aria-current=page]").count() == 1
        page.close()
    context.close()
    assert said == []


@pytest.mark.long
def test_where_to_enter_a_token_follows_what_asks_for_one(opened: BrowserContext, rest: httpx.Client) -> None:
    page = visited(opened, rest, "/login")
    asked, place = page.get_by_text("enter a token below").bounding_box(), page.locator("#token").bounding_box()
    assert asked is not None
    assert place is not None
    assert place["y"] - asked["y"] < MAX_PIXELS_AWAY
