"""The charts of a report draw the figures of the report."""

from collections import defaultdict
from typing import Any

import pytest

from sizing.charts.rendering import svg
from sizing.charts.sizing_report import report_charts
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from


def test_the_curve_passes_through_the_interval_asked_for_and_is_lowest_at_the_best() -> None:
    scenario = scenario_from(REFERENCE_SCENARIO)
    report = answer(scenario)
    curve = report_charts(scenario, report)[0]
    points = {point["label"]: point for point in curve["layer"][1]["data"]["values"]}
    assert points["as asked"]["lost_fraction"] == report.interval.lost_at_interval_fraction
    lost: dict[float, float] = defaultdict(float)
    for row in curve["data"]["values"]:
        lost[row["interval_seconds"]] += row["lost_fraction"]
    below = max(fraction for interval, fraction in lost.items() if 2000 < interval < 14_400)
    assert below < points["as asked"]["lost_fraction"]
    lowest = min(lost, key=lost.__getitem__)
    assert lost[lowest] >= points["best"]["lost_fraction"]
    assert lowest == pytest.approx(points["best"]["interval_seconds"], rel=0.05)


@pytest.mark.parametrize(
    ("given", "titles"),
    [
        ({}, ["Contents of a checkpoint"]),
        (
            {"write_bytes_per_second": 1e9, "node_write_bytes_per_second": 1e9},
            ["Contents of a checkpoint", "What limits the write"],
        ),
    ],
)
def test_only_what_is_known_is_drawn(given: dict[str, Any], titles: list[str]) -> None:
    storage = {"storage": {"profile": given}} if given else {}
    scenario = scenario_from({"model": {"preset": "gpt2"}} | storage)
    charts = report_charts(scenario, answer(scenario))
    assert [chart["title"]["text"] for chart in charts] == titles
    assert all("<svg" in svg(chart) for chart in charts)
