"""Documents say the first screen on page 1, what was asked as a reader writes it, and no field names as headings."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import pypdf
import pytest
from pydantic import BaseModel

from sizing.present.document import Document, as_file
from sizing.present.page import name_fields, render_page, render_pdf
from sizing.questions import registry
from sizing.questions.answer.question import sizing_document
from sizing.questions.answer.words import each_assumed, inputs
from sizing.questions.compare.request import REFERENCE_COMPARISON
from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.layouts.request import REFERENCE_SEARCH
from sizing.questions.registry import (
    COMPARE,
    DECIDE,
    LAYOUTS,
    REMATERIALIZE,
    SENSITIVITY,
    SIMULATE,
    STAGES,
    SWEEP,
    QuestionEntry,
)
from sizing.questions.rematerialize.request import REFERENCE_REMATERIALIZATION
from sizing.questions.require.answer import answer_requirements
from sizing.questions.sensitivity.request import REFERENCE_SENSITIVITY
from sizing.questions.simulate.request import REFERENCE_SIMULATION, ScenarioSimulation
from sizing.questions.stages.request import REFERENCE_STAGES
from sizing.questions.sweep.request import REFERENCE_SWEEP
from sizing.report import answer, find_layout
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.storage.calibration import calibrate
from tests.examples import spread
from tests.sizing.present.gallery import cluster
from tests.sizing.present.pages import FIELD_NAME, Page
from tests.sizing.present.scenarios import SCENARIOS
from tests.sizing.storage.calibration.simulation import result

NOW = datetime(2026, 11, 22, 6, 30, tzinfo=UTC)
PAGE_WIDTH_PIXELS = 912
"""Of the text on a screen: 60 rem less the space around it."""


def document_in(entry: QuestionEntry[Any, Any], report: BaseModel) -> Document:
    """What every medium shows of a report that answers a question."""
    return entry.question.present(entry.question.example, report).document()


ANSWERS: dict[str, Callable[[], Document]] = {
    "comparison": lambda: document_in(registry.COMPARE, COMPARE.answer(REFERENCE_COMPARISON)),
    "decision": lambda: document_in(registry.DECIDE, DECIDE.answer(REFERENCE_DECISION)),
    "requirements": lambda: document_in(
        registry.REQUIRE, answer_requirements(scenario_from(SCENARIOS["two short limits"]))
    ),
    "layouts": lambda: document_in(registry.LAYOUTS, LAYOUTS.answer(REFERENCE_SEARCH)),
    "stages": lambda: document_in(registry.STAGES, STAGES.answer(REFERENCE_STAGES)),
    "rematerialization": lambda: document_in(registry.REMATERIALIZE, REMATERIALIZE.answer(REFERENCE_REMATERIALIZATION)),
    "cluster": lambda: document_in(registry.CLUSTER, cluster()),
    "sensitivity": lambda: document_in(registry.SENSITIVITY, SENSITIVITY.answer(REFERENCE_SENSITIVITY)),
    "simulation": lambda: document_in(
        registry.SIMULATE, SIMULATE.answer(ScenarioSimulation.model_validate(REFERENCE_SIMULATION))
    ),
    "sweep": lambda: document_in(registry.SWEEP, SWEEP.answer(REFERENCE_SWEEP)),
}
UNDRAWN = {"rematerialization", "requirements", "simulation"}
"""Answers without a chart."""


@cache
def document_of(name: str) -> Document:
    if name in ANSWERS:
        return ANSWERS[name]()
    scenario = scenario_from(SCENARIOS[name])
    return replace(sizing_document(scenario, answer(scenario)), question=as_file(SCENARIOS[name]))


@cache
def page_of(name: str) -> Page:
    return Page(render_page(document_of(name), made_at=NOW))


NAMES = [*SCENARIOS, *ANSWERS]


def test_a_page_says_when_it_was_made() -> None:
    scenario = scenario_from(REFERENCE_SCENARIO)
    made = render_page(sizing_document(scenario, answer(scenario)), made_at=datetime(2026, 11, 22, 9, 30, tzinfo=UTC))
    assert "2026-11-22 09:30" in made


@pytest.mark.parametrize("name", NAMES)
def test_no_heading_and_no_label_is_a_field_name(name: str) -> None:
    headings = page_of(name).headings
    assert len(headings) >= 5
    assert [heading for heading in headings if FIELD_NAME.search(heading)] == []


def test_the_words_of_a_field_are_told_from_its_name() -> None:
    assert FIELD_NAME.search("checkpoint.interval_seconds")
    assert FIELD_NAME.search("num_nodes")
    assert not FIELD_NAME.search("checkpoint: interval")


@pytest.mark.parametrize("name", NAMES)
def test_verdict_figures_and_warnings_come_first_in_that_order(name: str) -> None:
    document, said = document_of(name), page_of(name).words
    first = document.first_page
    leading = [grid.title for grid in document.grids if grid.leads]
    order = [first.verdict, *(row.meaning for row in first.figures), *leading, *first.warnings]
    places = [said.index(" ".join(name_fields(text).split())) for text in order]
    assert places == sorted(places)
    first_table = next((grid.title for grid in document.grids if grid.title and not grid.leads), "")
    assert not places or places[-1] <= said.rindex(first_table)


@pytest.mark.parametrize(
    "name", spread(["reference", "all missed", "tiers and prices", "comparison"], by_default=["tiers and prices"])
)
def test_page_1_of_the_pdf_has_the_first_screen(name: str) -> None:
    pages = pypdf.PdfReader(io.BytesIO(render_pdf(render_page(document_of(name), made_at=NOW)))).pages
    said = "".join(pages[0].extract_text().split())
    first = document_of(name).first_page
    for text in (first.verdict, *first.remedies, *(row.figure for row in first.figures)):
        assert "".join(name_fields(text).split()) in said, text
    assert f"1/{len(pages)}" in said


def test_page_1_calls_what_is_still_to_be_given_as_the_table_of_inputs_does() -> None:
    page = render_page(open_document(), made_at=NOW)
    said = " ".join(pypdf.PdfReader(io.BytesIO(render_pdf(page))).pages[0].extract_text().split())
    assert "give “training: sequence length”, “training: micro batch size”, “training: global batch size”" in said
    assert "for failures give “reliability: MTBF”" in said
    assert re.search(r"\b(training|storage|reliability|parallelism)\.[a-z]", said) is None


def open_document() -> Document:
    """An answer that lacks much: neither what is trained on, nor failures, nor a rate to read at."""
    given = {"profile": {"write_bytes_per_second": 40e9}}
    found = find_layout({"model": {"preset": "llama-3.1-405b"}, "cluster": {"num_gpus": 4096}, "storage": given})
    return sizing_document(found.scenario, found.answer())


def test_the_name_of_a_field_breaks_on_paper_between_its_words_alone() -> None:
    page = render_page(open_document(), made_at=NOW)
    said = "\n".join(each.extract_text() for each in pypdf.PdfReader(io.BytesIO(render_pdf(page))).pages)
    for name in ("first_stage_layers", "last_stage_layers", "embedding_counts_as_layer"):
        printed = re.search(r"\n?".join(map(re.escape, name)), said)
        assert printed, name
        assert set(re.findall(r"(.)\n", printed[0])) <= {".", "_"}, printed[0]


def test_money_is_on_page_1_and_its_parts_beside_it() -> None:
    assert {"Cost", "To buy: capacity"} <= {row.label for row in document_of("tiers and prices").first_page.figures}


def test_degrees_that_were_found_are_not_called_asked_and_an_empty_block_is_no_input() -> None:
    found = find_layout({"model": {"preset": "gpt2"}, "training": {}, "cluster": {"num_gpus": 8}})
    rows = {name: value for name, value, *_ in inputs(found.scenario, found.assumed).rows}
    assert rows["parallelism: data"] == "8 (chosen for you)"
    assert rows["cluster: GPUs"] == "8"
    assert "training" not in rows
    found = find_layout({"model": {"preset": "gpt2"}, "cluster": {"num_gpus": 8}, "parallelism": {"tensor": 2}})
    rows = {name: value for name, value, *_ in inputs(found.scenario, found.assumed).rows if "parallelism" in name}
    assert rows == {"parallelism: tensor": "2", "parallelism: data": "4 (chosen for you)"}
    chosen = [row.field for row in each_assumed(found.scenario, found.assumed) if row.is_chosen]
    assert "parallelism.data" in chosen
    assert "parallelism.tensor" not in chosen


def test_inputs_have_names_in_words_and_values_with_units() -> None:
    grid = inputs(scenario_from(SCENARIOS["tiers and prices"]))
    assert {
        ("checkpoint: interval", "30.0 min"),
        ("storage: write bandwidth", "50.00 GB/s"),
        ("reliability: MTBF", "8.00 h"),
        ("retention: free", "20.0 %"),
        ("checkpoint tier 1 storage: write bandwidth", "10.00 GB/s"),
        ("costs: run", "54.0 days"),
    } <= set(grid.rows)
    assert not [row for row in grid.rows if FIELD_NAME.search(row[0]) or "{" in row[1]]


def test_a_calibration_is_one_input() -> None:
    calibration = calibrate([result()], num_draws=50).model_dump(mode="json")
    rows = inputs(scenario_from({"model": {"preset": "gpt2"}, "storage": {"calibration": calibration}})).rows
    grades = "grade A inside what was measured, D at 4 times the nodes"
    assert rows[1:] == (("storage: calibration", f"engine direct, 1 run, {grades}"),)


@pytest.mark.parametrize("name", NAMES)
def test_the_page_fits_a_phone_and_loads_nothing(name: str) -> None:
    page, text = page_of(name), render_page(document_of(name), made_at=NOW)
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags
    assert len(re.findall(r'<div class="wide"><table', text)) == text.count("<table") > 0
    assert re.search(r"figure img \{[^}]*max-width: 100%", text)
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe")]
    sources = [attributes.get("src") or attributes.get("href") for _, attributes in page.tags]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources if source)


def test_on_a_phone_a_wide_table_of_words_is_a_list_whose_lines_name_their_columns() -> None:
    page, text = page_of("two short limits"), render_page(document_of("two short limits"), made_at=NOW)
    named = {attributes.get("data-label") for tag, attributes in page.tags if tag == "td"}
    assert {"assumed", "may be", "source"} <= named
    assert re.search(r"\.stacked td\S*::before \{ content: attr\(data-label\)", text)


def test_on_a_phone_so_is_one_of_which_a_column_holds_sentences() -> None:
    """What the targets need has six columns, the last of them a reason."""
    asked = REFERENCE_SCENARIO | {"targets": {"min_goodput_fraction": 0.95, "max_stall_seconds": 60}}
    text = render_page(document_in(registry.REQUIRE, answer_requirements(scenario_from(asked))), made_at=NOW)
    assert re.search(r'<table class="stacked">\s*<thead><tr><th scope="col">input</th>', text)


def test_the_rows_of_the_targets_stand_before_the_charts_and_all_other_tables_behind_them() -> None:
    text = render_page(document_of("two short limits"), made_at=NOW)
    order = [text.index(words) for words in ("<h2>Targets</h2>", "<figure>", "<h2>Checkpoint</h2>")]
    assert order == sorted(order)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in UNDRAWN])
def test_every_chart_fits_the_text(name: str) -> None:
    images = [dict(attributes) for tag, attributes in page_of(name).tags if tag == "img"]
    assert images
    for image in images:
        drawing = base64.b64decode((image["src"] or "").partition(",")[2]).decode()
        width = re.search(r'<svg [^>]*?\bwidth="([0-9.]+)"', drawing)
        assert width is not None
        assert float(width[1]) <= PAGE_WIDTH_PIXELS
        assert image["alt"]


def test_text_of_a_scenario_is_never_markup() -> None:
    scenario = scenario_from({"model": {"preset": "gpt2"}})
    shown = render_page(replace(sizing_document(scenario, answer(scenario)), title="<b>x</b>"), made_at=NOW)
    assert "<b>x" not in shown
    assert "&lt;b&gt;x" in shown
