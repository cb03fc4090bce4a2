"""What a DecisionReport shows as charts: what each offer costs, and the cost over its bandwidth."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.charts.capacity import capacity_chart
from sizing.charts.chart import Chart, Spec, chart, series
from sizing.charts.theme import BAR_STEP, COLORS, INK, WIDTH
from sizing.explore.decisions.decision_report import DecisionReport
from sizing.units import BYTES_PER_GIGABYTE, rate_text


def decision_chart(report: DecisionReport) -> Chart:
    """A bar for each offer, in the parts of its ledger; below it the spread of its draws, and cost over bandwidth.

    Below that, where a capacity is offered, what workloads keep over time under the first offer.
    """
    return chart(
        "What each offer costs",
        rows=[],
        vconcat=list(_drawn(report).values()),
        resolve={"scale": {"color": "independent"}},
    )


def decision_charts(report: DecisionReport) -> list[Chart]:
    """The same, each for itself, as a page has them."""
    return [chart(title, rows=[], **drawn) for title, drawn in _drawn(report).items()]


def _drawn(report: DecisionReport) -> dict[str, Spec]:
    """By their titles, the charts of what the report holds."""
    drawn = {
        "What each offer costs": _bars(report),
        "What each offer may cost": _odds(report),
        "Cost over bandwidth": _curves(report) if any(offer.bandwidth_costs for offer in report.offers) else None,
        "Capacity over time": _capacity(report) if any(offer.capacity_bytes for offer in report.offers) else None,
    }
    return {title: spec for title, spec in drawn.items() if spec is not None}


def _bars(report: DecisionReport) -> Spec:
    names = [offer.name for offer in report.offers]
    parts = list(dict.fromkeys(line.name for offer in report.offers for line in offer.ledger))
    return {
        "width": WIDTH,
        "height": BAR_STEP,
        "data": {"values": list(_parts(report))},
        "mark": "bar",
        "encoding": {
            "y": {"field": "offer", "type": "nominal", "title": None, "sort": names},
            "x": {"field": "cost", "type": "quantitative", "title": f"{report.currency}", "axis": {"format": "~s"}},
            "color": series("part", "for", parts)["color"],
            "order": {"field": "place"},
        },
    }


def _parts(report: DecisionReport) -> Iterator[dict[str, object]]:
    for offer in report.offers:
        for place, line in enumerate(offer.ledger):
            yield {"offer": offer.name, "part": line.name, "cost": line.cost or 0.0, "place": place}


def _odds(report: DecisionReport) -> Spec | None:
    """A bar for each offer over 90 % of its draws, with a tick at half of them; None where no cost is known."""
    rows = list(_spreads(report))
    if not rows:
        return None
    y = {"field": "offer", "type": "nominal", "title": None, "sort": [row["offer"] for row in rows]}
    x = {"type": "quantitative", "axis": {"format": "~s"}, "scale": {"zero": False}}
    title = f"{report.currency}: 90 % of the draws, half of them below the tick"
    return {
        "width": WIDTH,
        "height": BAR_STEP,
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "bar", "color": COLORS[0], "opacity": 0.5},
                "encoding": {"y": y, "x": {"field": "low", "title": title, **x}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "tick", "thickness": 3, "color": COLORS[1]},
                "encoding": {"y": y, "x": {"field": "middle", "title": title, **x}},
            },
        ],
    }


def _spreads(report: DecisionReport) -> Iterator[dict[str, object]]:
    for offer in report.odds.offers if report.odds else ():
        if offer.total is not None:
            yield {"offer": offer.name, "low": offer.total.p5, "middle": offer.total.p50, "high": offer.total.p95}


def _curves(report: DecisionReport) -> Spec:
    names = [offer.name for offer in report.offers if offer.bandwidth_costs]
    money = {"type": "quantitative", "title": report.currency, "axis": {"format": "~s"}, "scale": {"type": "log"}}
    rate = {"type": "quantitative", "title": "write bandwidth, GB/s", "scale": {"type": "log"}}
    color = series("offer", "offer", names)["color"]
    cheapest = list(_cheapest(report))
    x, y = {"x": {"field": "rate", **rate}}, {"y": {"field": "cost", **money}}
    return {
        "width": WIDTH,
        "height": WIDTH // 2,
        "layer": [
            {"data": {"values": list(_points(report))}, "mark": "line", "encoding": x | y | {"color": color}},
            {
                "data": {"values": cheapest},
                "mark": {"type": "point", "filled": True, "size": 80},
                "encoding": x | y | {"color": color, "tooltip": {"field": "label"}},
            },
            {
                "data": {"values": [{name: row[name] for name in ("rate", "cost", "label")} for row in cheapest[:1]]},
                "mark": {"type": "text", "dy": 18, "color": INK},
                "encoding": x | y | {"text": {"field": "label"}},
            },
            *_rule_of_thumb(report, x),
        ],
    }


def _rule_of_thumb(report: DecisionReport, x: Spec) -> list[Spec]:
    """A dashed line at 1 GB/s for every GPU of the largest workload, which most runs do not need."""
    rate = report.max_num_gpus * BYTES_PER_GIGABYTE
    at = {"values": [{"rate": report.max_num_gpus, "label": f"1 GB/s per GPU: {rate_text(rate)}"}]}
    rates = [point.write_bytes_per_second for offer in report.offers for point in offer.bandwidth_costs]
    side = {"align": "left", "dx": 6} if rate**2 < min(rates) * max(rates) else {"align": "right", "dx": -6}
    text = {"type": "text", **side, "y": 8, "color": INK}
    return [
        {"data": at, "mark": {"type": "rule", "strokeDash": [4, 4]}, "encoding": x},
        {"data": at, "mark": text, "encoding": x | {"text": {"field": "label"}}},
    ]


def _capacity(report: DecisionReport) -> Spec:
    runs = {workload.name: workload.capacity_over_time for workload in report.offers[0].workloads}
    offered = {offer.name: float(offer.capacity_bytes) for offer in report.offers if offer.capacity_bytes is not None}
    drawn = capacity_chart(runs, offered)
    return {name: drawn[name] for name in ("width", "height", "layer")}


def _points(report: DecisionReport) -> Iterator[dict[str, object]]:
    for offer in report.offers:
        for point in offer.bandwidth_costs:
            yield {"offer": offer.name, "rate": point.write_bytes_per_second / BYTES_PER_GIGABYTE, "cost": point.cost}


def _cheapest(report: DecisionReport) -> Iterator[dict[str, object]]:
    for offer in report.offers:
        if offer.cheapest_bandwidth is not None:
            point = offer.cheapest_bandwidth
            rate = point.write_bytes_per_second
            label = f"costs least at {rate_text(rate)}"
            yield {"offer": offer.name, "rate": rate / BYTES_PER_GIGABYTE, "cost": point.cost, "label": label}
