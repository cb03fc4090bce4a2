"""Charts of a decision: what each offer costs, and the cost over its bandwidth."""

from __future__ import annotations

import re
from typing import Any

from sizing.present.capacity import capacity_chart
from sizing.present.chart import BAR_STEP, COLORS, INK, WIDTH, Chart, Spec, chart, money_axis, series
from sizing.questions.decide.report import DecisionReport
from sizing.units import BYTES_PER_GIGABYTE, min_rate_text, rate_text

_LABEL_PIXELS = 30
"""Room between the curves and an axis, for the words below the lowest point."""
_RATE = "write_gigabytes_per_second"


def decision_chart(report: DecisionReport) -> Chart:
    """Draw a bar for each offer, in the parts of its ledger; below it the spread of its draws, and cost over bandwidth.

    Below that, where a capacity is offered, what workloads keep over time under the first offer.
    """
    return chart(
        "What each offer costs",
        rows=[],
        vconcat=list(_draw_views(report).values()),
        resolve={"scale": {"color": "independent"}},
    )


def decision_charts(report: DecisionReport) -> list[Chart]:
    """Draw the charts of a decision one by one, as a page has them."""
    return [chart(title, rows=[], **view) for title, view in _draw_views(report).items()]


def _draw_views(report: DecisionReport) -> dict[str, Spec]:
    """Draw a view of each thing that the report holds, by its title."""
    views = {"What each offer costs": _draw_costs(report)}
    if any(offer.total for offer in (report.odds.offers if report.odds else ())):
        views["What each offer may cost"] = _draw_odds(report)
    if any(offer.bandwidth_costs for offer in report.offers):
        views["Cost over bandwidth"] = _draw_cost_over_bandwidth(report)
    if any(offer.capacity_bytes for offer in report.offers):
        runs = {workload.name: workload.capacity_over_time for workload in report.offers[0].workloads}
        offered = {each.name: float(each.capacity_bytes) for each in report.offers if each.capacity_bytes is not None}
        capacity = capacity_chart(runs, offered)
        views["Capacity over time"] = {name: capacity[name] for name in ("width", "height", "layer")}
    return views


def _draw_costs(report: DecisionReport) -> Spec:
    """Draw a bar for each offer, in the parts of its ledger."""
    parts = list(dict.fromkeys(line.name for offer in report.offers for line in offer.ledger))
    cost = _name_money("cost", report)
    rows = [
        {"offer": offer.name, "part": line.name, cost: line.cost or 0.0, "place": place}
        for offer in report.offers
        for place, line in enumerate(offer.ledger)
    ]
    return {
        "width": WIDTH,
        "height": BAR_STEP,
        "data": {"values": rows},
        "mark": "bar",
        "encoding": {
            "y": {"field": "offer", "type": "nominal", "title": None, "sort": [each.name for each in report.offers]},
            "x": {
                "field": cost,
                "type": "quantitative",
                "title": report.currency,
                "axis": money_axis(report.currency),
            },
            "color": series("part", "for", parts)["color"],
            "order": {"field": "place"},
        },
    }


def _draw_odds(report: DecisionReport) -> Spec:
    """Draw a bar for each offer over 90 % of its draws, with a tick at half of them."""
    low, middle, high = (_name_money(f"p{percent}", report) for percent in (5, 50, 95))
    rows = [
        {"offer": offer.name, low: offer.total.p5, middle: offer.total.p50, high: offer.total.p95}
        for offer in (report.odds.offers if report.odds else ())
        if offer.total is not None
    ]
    y = {"field": "offer", "type": "nominal", "title": None, "sort": [row["offer"] for row in rows]}
    x = {"type": "quantitative", "axis": money_axis(report.currency), "scale": {"zero": False}}
    title = f"{report.currency}: 90 % of the draws, half of them below the tick"
    return {
        "width": WIDTH,
        "height": BAR_STEP,
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "bar", "color": COLORS[0], "opacity": 0.5},
                "encoding": {"y": y, "x": {"field": low, "title": title, **x}, "x2": {"field": high}},
            },
            {
                "mark": {"type": "tick", "thickness": 3, "color": COLORS[1]},
                "encoding": {"y": y, "x": {"field": middle, "title": title, **x}},
            },
        ],
    }


def _draw_cost_over_bandwidth(report: DecisionReport) -> Spec:
    """Draw a curve for each offer, the bandwidth at which it costs least, and the rule of thumb."""
    names = [offer.name for offer in report.offers if offer.bandwidth_costs]
    cost = _name_money("cost", report)
    money = {
        "type": "quantitative",
        "title": report.currency,
        "axis": money_axis(report.currency),
        "scale": {"type": "log", "nice": False, "padding": _LABEL_PIXELS},
    }
    rate = {"type": "quantitative", "title": "write bandwidth, GB/s", "scale": {"type": "log"}}
    color = series("offer", "offer", names)["color"]
    points = [
        {"offer": offer.name, _RATE: point.write_bytes_per_second / BYTES_PER_GIGABYTE, cost: point.cost}
        for offer in report.offers
        for point in offer.bandwidth_costs
    ]
    cheapest: list[dict[str, Any]] = []
    for offer in report.offers:
        if (point := offer.cheapest_bandwidth) is not None:
            label = f"costs least at {min_rate_text(point.write_bytes_per_second)}"
            at = point.write_bytes_per_second / BYTES_PER_GIGABYTE
            cheapest.append({"offer": offer.name, _RATE: at, cost: point.cost, "label": label})
    x, y = {"x": {"field": _RATE, **rate}}, {"y": {"field": cost, **money}}
    return {
        "width": WIDTH,
        "height": WIDTH // 2,
        "layer": [
            {"data": {"values": points}, "mark": "line", "encoding": x | y | {"color": color}},
            {
                "data": {"values": cheapest},
                "mark": {"type": "point", "filled": True, "size": 80},
                "encoding": x | y | {"color": color, "tooltip": {"field": "label"}},
            },
            *(
                {
                    "data": {"values": [{name: row[name] for name in (_RATE, cost, "label")}]},
                    "mark": {"type": "text", "dy": 18, **_align(row[_RATE], report), "color": INK},
                    "encoding": x | y | {"text": {"field": "label"}},
                }
                for row in cheapest[:1]
            ),
            *_draw_rule_of_thumb(report, x),
        ],
    }


def _draw_rule_of_thumb(report: DecisionReport, x: Spec) -> list[Spec]:
    """Draw a dashed line at 1 GB/s for every GPU of the largest workload, which most runs do not need."""
    rate = report.max_num_gpus * BYTES_PER_GIGABYTE
    at = {"values": [{_RATE: report.max_num_gpus, "label": f"1 GB/s per GPU: {rate_text(rate)}"}]}
    text = {"type": "text", **_align(report.max_num_gpus, report), "y": 8, "color": INK}
    return [
        {"data": at, "mark": {"type": "rule", "strokeDash": [4, 4]}, "encoding": x},
        {"data": at, "mark": text, "encoding": x | {"text": {"field": "label"}}},
    ]


def _align(rate: float, report: DecisionReport) -> Spec:
    """Align words at a bandwidth in GB/s towards the middle of the axis, so that they cover none of its figures."""
    rates = [point.write_bytes_per_second for offer in report.offers for point in offer.bandwidth_costs]
    is_left = (rate * BYTES_PER_GIGABYTE) ** 2 < min(rates) * max(rates)
    return {"align": "left", "dx": 6} if is_left else {"align": "right", "dx": -6}


def _name_money(name: str, report: DecisionReport) -> str:
    """Name a field of rows that is money by its currency, without the characters that are syntax in Vega-Lite."""
    return f"{name}_" + re.sub(r"""[.\[\]\\'"]""", "_", report.currency)
