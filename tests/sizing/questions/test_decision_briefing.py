"""The page for those who pay: what to do, three costs that add up, what would change it, and no word of the trade."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pypdf
import pytest

from sizing.present.document import Briefing, Document
from sizing.present.page import render_page, render_pdf
from sizing.present.rendering import render_svg
from sizing.questions import registry
from sizing.questions.decide.briefing import brief_decision
from sizing.questions.decide.charts import decision_charts
from sizing.questions.decide.report import DecisionReport
from sizing.questions.decide.request import REFERENCE_DECISION
from tests.sizing.present.drawn_words import LETTERS, place_lines

GLOSSARY = Path(__file__).parents[3] / "docs" / "glossary.md"
NOW = datetime(2026, 11, 9, 6, 30, tzinfo=UTC)
FOR_FINANCE = REFERENCE_DECISION | {"author": "Ada Lovelace", "horizon_seconds": "3y"}
BARE = "bare"
ONLY_READS = {"profile": {"read_bytes_per_second": "100 GB/s"}}
WITH_OFFERS_NOT_COMPARED = FOR_FINANCE | {
    "offers": [
        *REFERENCE_DECISION["offers"],
        {"name": "unpriced", "storage": REFERENCE_DECISION["offers"][0]["storage"]},
        {"name": "wrong", "storage": {"profile": {"write_bytes_per_second": "-1 GB/s"}}},
        {"name": BARE, "storage": ONLY_READS, "prices": [{"amount": 1, "per": "offer", "every": "once"}]},
    ]
}


@cache
def pages() -> list[str]:
    question = registry.DECIDE.question
    return read_pages(question.answer_request(question.parse_request(WITH_OFFERS_NOT_COMPARED)).document())


def read_pages(document: Document) -> list[str]:
    pdf = render_pdf(render_page(document, made_at=NOW))
    return [" ".join(page.extract_text().split()) for page in pypdf.PdfReader(io.BytesIO(pdf)).pages]


def decide(**changed: Any) -> DecisionReport:
    return registry.DECIDE.answer(FOR_FINANCE | changed)


def brief(**changed: Any) -> Briefing:
    return brief_decision(decide(**changed))


def test_page_1_of_the_pdf_recommends_with_date_author_period_cluster_and_model() -> None:
    for text in (
        "Recommendation: choose all flash",
        "9 November 2026",
        "Ada Lovelace",
        "3 years",
        "3,072 GPUs in 384 nodes",
        "megatron-1t, 1.01 trillion parameters",
        "Caveat:",
    ):
        assert text in pages()[0]
    assert "Before you rely on it" not in pages()[0]


def glossary_words() -> list[str]:
    rows = [line.split("|")[1].strip() for line in GLOSSARY.read_text().splitlines() if line.startswith("| ")]
    words = [word for row in rows[2:] for word in row.replace("*", "").replace("`", "").split(", ")]
    return [word for word in words if word != "period"]  # which finance calls the time of a budget


def test_page_1_has_no_word_that_the_glossary_explains() -> None:
    assert len(glossary_words()) > 50
    said = pages()[0].removeprefix("What storage to buy")
    assert [word for word in glossary_words() if re.search(rf"\b{re.escape(word)}s?\b", said, re.IGNORECASE)] == []


def test_page_1_names_every_offer_that_is_not_compared_with_its_reason_in_one_sentence() -> None:
    sentence = next(reason for reason in brief(offers=WITH_OFFERS_NOT_COMPARED["offers"]).reasons if "Not" in reason)
    assert "wrong, as its entries break rules" in sentence
    assert "unpriced, as no price of it is known" in sentence
    assert f"{BARE}, as figures are missing" in sentence


def test_capital_operation_and_lost_gpu_time_of_each_offer_add_up_to_its_total() -> None:
    report = decide()
    costs, *_ = brief_decision(report).grids
    assert costs.columns[1:5] == ("Capital", "Operation", "Lost GPU time", "Total")
    assert costs.title == "Cost over 3 years, USD"
    for row in costs.rows:
        *parts, total = (float(cell.replace(",", "")) for cell in row[1:5])
        assert sum(parts) == pytest.approx(total, abs=2)
    bought = sum(line.cost or 0 for line in report.offers[0].ledger if line.kind == "capital")
    assert costs.rows[0][1] == f"{bought:,.0f}"
    assert bought == pytest.approx(5000 * 400 + 400 * 27.6, rel=0.01)  # 400 GB/s, and two checkpoints of 13.8 TB


def test_a_rent_is_operation_and_a_purchase_is_capital() -> None:
    rented = {"amount": 100, "per": "offer", "every": "month"}
    bought = {"amount": 900, "per": "offer", "every": "once", "life_seconds": "6y"}
    offer = REFERENCE_DECISION["offers"][0] | {"prices": [rented, bought]}
    (row,) = brief(offers=[offer]).grids[0].rows
    assert [float(cell.replace(",", "")) for cell in row[1:3]] == [450, 3600]


def test_it_says_who_would_win_with_the_current_settings() -> None:
    report = decide()
    as_asked = {offer.name: offer.total_as_asked or 0 for offer in report.offers}
    assert report.offers[0].name == "all flash"
    assert as_asked["parallel file system"] < as_asked["all flash"]
    said = " ".join(brief_decision(report).reasons)
    least = as_asked["parallel file system"]
    assert f"With your current settings parallel file system would cost least, ${least:,.0f}." in said


def test_the_price_of_a_gpu_hour_at_which_another_offer_wins_stands_in_the_table() -> None:
    report = decide()
    change = next(each for each in report.ranking_changes if each.what == "per_lost_gpu_hour")
    row = next(row for row in brief_decision(report).grids[1].rows if row[0] == "Price of a GPU-hour")
    assert row[1:] == ("$2.50", f"${change.at:,.2f} or less", change.other)


def test_without_an_offer_that_is_enough_none_is_recommended() -> None:
    small = [offer | {"capacity_bytes": "1TB"} for offer in REFERENCE_DECISION["offers"]]
    assert brief(offers=small).recommendation == "Recommendation: choose none of these offers as they are"


def test_without_a_price_of_gpu_time_the_caveat_says_so() -> None:
    unpriced = brief(per_lost_gpu_hour=None)
    assert "has no price" in unpriced.caveat
    assert "Lost GPU time" not in unpriced.grids[0].columns


def test_twenty_offers_leave_page_1_whole() -> None:
    report = decide(growth={"times": [2, 3], "per_year": 1.5})
    names = [f"Parallel file system, vendor {place:02}" for place in range(20)]
    offers = [report.offers[place // 10].model_copy(update={"name": name}) for place, name in enumerate(names)]
    question = registry.DECIDE.question
    document = question.present(
        question.parse_request(FOR_FINANCE), report.model_copy(update={"offers": offers})
    ).document()
    first, *_ = read_pages(replace(document, charts=(), grids=()))
    for text in ("15 further offers on the next pages", "GPUs, x1.5 in each year", "Caveat:", "as much as"):
        assert text in first


def test_charts_write_money_as_budgets_do() -> None:
    dear = [{**offer, "prices": [{"amount": 4e9, "per": "offer", "every": "once"}]} for offer in FOR_FINANCE["offers"]]
    costs, *_ = decision_charts(decide(offers=dear))
    drawn = render_svg(costs)
    assert "$4bn" in drawn
    assert "$4G" not in drawn


def test_the_words_of_the_cheapest_bandwidth_cover_no_figure_of_an_axis() -> None:
    *_, costs = decision_charts(decide(per_lost_gpu_hour=3))
    lines = place_lines(costs)
    [below] = [line for line in lines if line.startswith("costs least")]
    assert lines[below] < lines["100"] - 2 * LETTERS
    [workload] = FOR_FINANCE["workloads"]
    quick = workload | {"scenario": workload["scenario"] | {"targets": {"max_stall_seconds": 60}}}
    *_, only_fast = decision_charts(decide(workloads=[quick]))
    sides = [layer["mark"]["align"] for chart in (costs, only_fast) for layer in chart["layer"][2:3]]
    assert sides == ["right", "left"], "of the words at a point in the upper and in the lower half"


@pytest.mark.parametrize("currency", ["EUR", "k.€ [net]"])
def test_charts_of_any_currency_draw_their_costs(currency: str) -> None:
    costs, *_, curves = decision_charts(decide(currency=currency))
    [name] = costs["data"]["values"][0].keys() - {"offer", "part", "place"}
    assert name.startswith("cost_")
    assert name in curves["layer"][0]["data"]["values"][0]
    for chart in (costs, curves):
        drawn = render_svg(chart)
        assert "NaN" not in drawn
        assert "undefined" not in drawn
        assert len(place_lines(chart)) > 10
