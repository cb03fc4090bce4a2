"""The charts of a report draw the figures of the report."""

from collections import defaultdict
from typing import Any

import pytest

from sizing.present.guesses import visible_guesses
from sizing.present.rendering import render_svg
from sizing.questions.answer.charts import report_charts
from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.units import percent_text, seconds_text
from tests.sizing.present.drawn_words import LETTERS, place_lines
from tests.sizing.present.scenarios import SCENARIOS


def curve_and_points(document: dict[str, Any]) -> tuple[dict[float, float], dict[str, dict[str, Any]], SizingReport]:
    """What is lost by interval, the points that stand on it, and the report."""
    scenario = scenario_from(document)
    report = answer(scenario)
    curve = report_charts(scenario, report)[0]
    lost: dict[float, float] = defaultdict(float)
    for row in curve["data"]["values"]:
        lost[row["interval_seconds"]] += row["lost_fraction"]
    return lost, {point["label"].split(":")[0]: point for point in curve["layer"][1]["data"]["values"]}, report


def test_the_curve_passes_through_the_interval_asked_for_and_is_lowest_at_the_best() -> None:
    lost, points, report = curve_and_points(REFERENCE_SCENARIO)
    assert points["current"]["lost_fraction"] == pytest.approx(report.interval.lost_at_interval_fraction, rel=1e-9)
    assert points["best"]["interval_seconds"] == pytest.approx(report.interval.optimal_period_seconds, rel=1e-3)
    below = max(fraction for interval, fraction in lost.items() if 2000 < interval < 14_400)
    assert below < points["current"]["lost_fraction"]


@pytest.mark.parametrize("name", ["reference", "all missed", "two short limits", "tiers and prices"])
def test_the_best_point_is_the_lowest_of_the_curve_and_says_its_interval(name: str) -> None:
    lost, points, _ = curve_and_points(SCENARIOS[name])
    for point in points.values():
        assert lost[point["interval_seconds"]] == pytest.approx(point["lost_fraction"], rel=1e-9)
    best = points["best"]
    assert best["lost_fraction"] == pytest.approx(min(lost.values()), rel=1e-9)
    assert best["label"] == f"best: {seconds_text(best['interval_seconds'])}, {percent_text(best['lost_fraction'])}"


@pytest.mark.parametrize(
    ("given", "titles"),
    [
        ({}, ["Contents of a checkpoint", "Guesses by how far they move the checkpoint size"]),
        (
            {"write_bytes_per_second": 1e9, "node_write_bytes_per_second": 1e9},
            ["What limits the write", "Contents of a checkpoint", "Guesses by how far they move the overhead"],
        ),
    ],
)
def test_only_what_is_known_is_drawn(given: dict[str, Any], titles: list[str]) -> None:
    storage = {"storage": {"profile": given}} if given else {}
    scenario = scenario_from({"model": {"preset": "gpt2"}} | storage)
    charts = report_charts(scenario, answer(scenario))
    assert [chart["title"]["text"] for chart in charts] == titles
    assert all("<svg" in render_svg(chart) for chart in charts)


def test_the_limit_that_decides_is_named_and_has_a_color_of_its_own() -> None:
    scenario = scenario_from(SCENARIOS["two short limits"])
    report = answer(scenario)
    [chart] = [each for each in report_charts(scenario, report) if each["title"]["text"] == "What limits the restore"]
    assert chart["title"]["subtitle"] == f"bottleneck: {report.restore.bottleneck}"
    every, decides, _ = chart["layer"]
    assert [row["resource"] for row in decides["data"]["values"]] == [report.restore.bottleneck]
    assert decides["mark"]["color"] != every["mark"]["color"]


def test_each_guess_that_shows_in_the_headline_has_a_bar_between_its_ends() -> None:
    scenario = scenario_from(SCENARIOS["no storage"])
    report = answer(scenario)
    rows = report_charts(scenario, report)[-1]["data"]["values"]
    guesses = visible_guesses(report.guesses, report.headline)
    ends = [end for guess in guesses for end in (guess.headline_low, guess.headline_high)]
    assert guesses
    assert [row["end_bytes"] for row in rows] == ends


def test_the_words_of_two_near_points_stand_on_either_side() -> None:
    curve = report_charts(scenario_from(REFERENCE_SCENARIO), answer(REFERENCE_SCENARIO))[0]
    below, shorter, _, longer = curve["layer"][2:]
    assert (below["mark"]["stroke"], "stroke" in shorter["mark"]) == ("white", False), "the words have a halo"
    assert (shorter["mark"]["align"], longer["mark"]["align"]) == ("right", "left")
    (first,), (last,) = (layer["data"]["values"] for layer in (shorter, longer))
    assert first["interval_seconds"] < last["interval_seconds"]


def test_the_words_of_a_point_near_the_axis_stand_on_its_right_and_below_the_curve() -> None:
    """Shorter intervals are not drawn where training never advances."""
    scenario = scenario_from(SCENARIOS["all missed"])
    curve = report_charts(scenario, answer(scenario))[0]
    _, asked, _, best = curve["layer"][2:]
    assert asked["data"]["values"][0]["label"].startswith("current: 30.00 s")
    assert (asked["mark"]["align"], asked["mark"]["dy"]) == ("left", 16)
    assert (best["mark"]["align"], best["mark"]["dy"]) == ("left", -12)


def test_the_words_of_a_point_near_the_lower_axis_stand_above_its_figures_and_above_the_other_point() -> None:
    fast = {"storage": {"profile": {"write_bytes_per_second": "2 TB/s", "read_bytes_per_second": "2 TB/s"}}}
    often = {"checkpoint": REFERENCE_SCENARIO["checkpoint"] | {"interval_seconds": "20min"}}
    scenario = scenario_from(REFERENCE_SCENARIO | fast | often)
    report = answer(scenario)
    assert (report.interval.lost_at_interval_fraction or 1) < 0.04
    best, current = (
        percent_text(1 - (goodput or 0))
        for goodput in (report.interval.goodput_at_optimum_fraction, report.interval.goodput_at_interval_fraction)
    )
    lines = place_lines(report_charts(scenario, report)[0])
    assert lines[best] < lines[current] - 2 * LETTERS < lines["15 min"] - 3 * LETTERS
