"""What a SizingReport shows as charts: what a checkpoint holds, what limits it, how often to take it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sizing.layout import CheckpointSize
from sizing.present.capacity import capacity_chart
from sizing.present.chart import COLORS, HEIGHT, INK, Chart, Spec, chart, quantity
from sizing.present.guesses import visible_guesses
from sizing.present.tornado import tornado
from sizing.report import SizingReport
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.scenario import Scenario
from sizing.sized_layout import size_layout
from sizing.storage.limits import Limit
from sizing.storage.transfer import Numbers
from sizing.units import bytes_text, percent_text, seconds_text, short_seconds_text

_NUM_POINTS = 201
"""A smooth line at the width of a chart, whose points a handle below the axis goes through."""
_HALO = {"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}
"""Below words that may lie on a color."""
_LABEL_FRACTION = 0.3
"""Max fraction of the width of a chart that the words of a point take."""
_LABEL_PIXELS = 48
"""Height that the two lines of a point need below it, with room for an axis that goes beyond the highest value."""
_SAME = 1e-6
"""Of a fraction: intervals below the drain of an asynchronous save all lose the same."""
_AREA_OPACITY = 0.75
"""So that the grid is seen through the areas."""
_TIME_AXIS = {
    "values": [60, 300, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400, 259_200, 604_800],
    "labelExpr": "datum.value < 3600 ? datum.value / 60 + ' min' : datum.value < 86400 ? datum.value / 3600 + ' h'"
    " : datum.value / 86400 + ' d'",
}
"""Ticks where people count time, from a minute to a week; a logarithmic axis of its own would put them at 10^k
seconds."""
_INTERVALS = (60.0, 604_800.0)
"""Seconds that the axis goes through whatever is asked: it stays where it is while somebody drags the interval."""
_STRESSED = COLORS[1]
"""Of a bar that stands out, such as the limit that decides."""
_BAR_STEP = {"step": 34}
"""Pixels per bar that has a text beside it."""


def report_charts(scenario: Scenario, report: SizingReport) -> list[Chart]:
    """The charts of a scenario's report, in the order of its questions."""
    return list(_charts(scenario, report))


def guesses_chart(report: SizingReport) -> Chart:
    """A bar for each guess that shows in the digits of the headline, as `tornado` draws it."""
    shown = visible_guesses(report.guesses, report.headline)
    return Chart({**tornado("Guesses by how far they move", report.headline, shown), "usermeta": {"topic": "guesses"}})


def parts_chart(size: CheckpointSize) -> Chart:
    """A bar for each part of the state, as wide as its bytes in the files."""
    rows = [
        {"part": f"{name} ({part.dtype})", "total_bytes": part.total_bytes, "label": bytes_text(part.total_bytes)}
        for name, part in size.parts.items()
    ]
    return _bars("Contents of a checkpoint", rows, "part", quantity("total_bytes", "bytes in files"))


def limits_chart(title: str, limits: Sequence[Limit]) -> Chart:
    """A bar for each resource, as long as the time that it alone would take; the one that decides stands out."""
    rows = [
        {
            "resource": limit.resource,
            "seconds": limit.seconds,
            "label": f"{seconds_text(limit.seconds)}{', bottleneck' if limit.binds else ''}",
        }
        for limit in limits
    ]
    binding = next((limit.resource for limit in limits if limit.binds), "")
    length = quantity("seconds", "time of this limit alone")
    return _bars(
        title, rows, "resource", length, subtitle=f"bottleneck: {binding}" if binding else "", stressed=binding
    )


def lost_time_chart(scenario: Scenario, asked: SizingReport) -> Chart:
    """Where the time goes that a run loses, by interval: three shares on top of each other, their sum 1 - goodput.

    `asked` holds an optimum. Raises InvalidInput as `answer` does.
    """
    best, period = asked.interval.optimal_period_seconds or 0.0, asked.interval.interval_seconds
    around = np.geomspace(*_reach(best, period), _NUM_POINTS)
    intervals = np.unique([*around, best, period])
    inputs = with_arrays(scenario, {"checkpoint.interval_seconds": intervals}).run_inputs
    shares = evaluate(size_layout(scenario).workload, inputs).report.shares.by_name
    lost = [name for name in shares if name != "goodput"]
    total = np.sum([np.broadcast_to(shares[name], intervals.shape) for name in lost], axis=0)
    points = sorted(_points(intervals, total, asked=period, best=best), key=lambda point: point["interval_seconds"])
    height = quantity("lost_fraction", "share of wall time lost")
    return chart(
        "Share of wall time lost, by checkpoint interval",
        subtitle="stalls of completed saves, lost work (RPO) repeated, and recovery (RTO)"
        + (" without the restore, whose time is not known" if asked.interval.leaves_out_restore else ""),
        rows=list(_lost_rows(intervals, {name: shares[name] for name in lost})),
        encoding={
            "x": quantity("interval_seconds", "checkpoint interval, start to start", axis=_TIME_AXIS)
            | {"scale": {"type": "log", "nice": False, "domainMin": float(around[0]), "domainMax": float(around[-1])}},
        },
        usermeta={"handle": _handle(around, period)},
        layer=[
            {
                "mark": {"type": "area", "opacity": _AREA_OPACITY},
                "encoding": {
                    "y": height | {"stack": "zero"},
                    "color": {
                        "field": "share",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": lost, "range": list(COLORS[: len(lost)])},
                    },
                    "order": {"field": "order"},
                },
            },
            {
                "data": {"values": points},
                "mark": {"type": "point", "color": INK},
                "encoding": {"y": height, "tooltip": {"field": "label"}},
            },
            *(
                _label(
                    height,
                    point,
                    is_last=point is points[-1],
                    at=_place(point, around),
                    is_low=HEIGHT * point["lost_fraction"] < _LABEL_PIXELS * np.nanmax(total),
                    drawn=drawn,
                )
                for point in points
                for drawn in (_HALO, {})
            ),
        ],
    )


def _reach(best: float, period: float) -> tuple[float, float]:
    """From the shortest to the longest interval that is drawn, in seconds; 0 stands for a best one that is not known.

    >>> _reach(1890, 14_400), _reach(30, 14_400)
    ((60.0, 604800.0), (30, 604800.0))
    """
    asked = [interval for interval in (best, period) if interval]
    return min(_INTERVALS[0], *asked), max(_INTERVALS[1], *asked)


def _handle(intervals: npt.NDArray[np.float64], period: float) -> dict[str, object]:
    """What a page needs to drag the interval along the axis: equal steps of its length, as they are typed."""
    half_a_step = 1 - math.sqrt(intervals[0] / intervals[1])
    return {
        "field": "checkpoint.interval_seconds",
        "label": "Try another interval",
        "steps": [short_seconds_text(each, within=half_a_step) for each in intervals],
        "position": int(np.argmin(np.abs(np.log(intervals / period)))),
    }


def _label(
    height: Mapping[str, Any],
    point: Mapping[str, Any],
    *,
    is_last: bool,
    at: float,
    is_low: bool,
    drawn: Mapping[str, object],
) -> dict[str, object]:
    """The words of a point at a fraction of the axis: away from the other point however near it is, within the axes.

    Those of a point that `is_low` would cover the axis below it: they stand above the words of the other point.
    """
    is_right = at <= 1 - _LABEL_FRACTION if is_last else at < _LABEL_FRACTION
    side = {"align": "left", "dx": 6} if is_right else {"align": "right", "dx": -6}
    above = {"dy": -12, "baseline": "bottom"}
    beside = above if is_right == is_last else above | {"dy": -40} if is_low else {"dy": 16}
    return {
        "data": {"values": [point]},
        "mark": {"type": "text", "lineBreak": ", ", **beside, **side, **drawn},
        "encoding": {"y": height, "text": {"field": "label"}},
    }


def _place(point: Mapping[str, Any], intervals: npt.NDArray[np.float64]) -> float:
    """Where a point stands between both ends of the axis, as a fraction."""
    first, last, own = np.log([intervals[0], intervals[-1], point["interval_seconds"]])
    return float((own - first) / (last - first))


def _points(
    intervals: npt.NDArray[np.float64], lost: npt.NDArray[np.float64], *, asked: float, best: float
) -> Iterator[dict[str, Any]]:
    """The points of the curve that a reader looks for: the interval asked for, and the lowest.

    That is the best interval but where tiers have best ones of their own, which this curve leaves as they are given.
    """
    at_best = int(np.searchsorted(intervals, best))
    is_lowest = lost[at_best] <= np.nanmin(lost) * (1 + _SAME)
    lowest = at_best if is_lowest else int(np.nanargmin(lost))
    places = {"current": int(np.searchsorted(intervals, asked)), "best": lowest}
    for name, place in places.items():
        if not np.isnan(lost[place]):
            yield {
                "interval_seconds": float(intervals[place]),
                "lost_fraction": float(lost[place]),
                "label": f"{name}: {seconds_text(intervals[place])}, {percent_text(lost[place])}",
            }


def _lost_rows(intervals: npt.NDArray[np.float64], shares: Mapping[str, Numbers]) -> Iterator[dict[str, object]]:
    """Each share at each interval where it is known, in the order in which they stand on each other."""
    for order, (name, fractions) in enumerate(shares.items()):
        for interval, fraction in zip(intervals, np.broadcast_to(fractions, intervals.shape), strict=True):
            if not np.isnan(fraction):
                yield {
                    "interval_seconds": float(interval),
                    "share": name,
                    "order": order,
                    "lost_fraction": float(fraction),
                }


def _charts(scenario: Scenario, report: SizingReport) -> Iterator[Chart]:
    if report.interval.optimal_period_seconds is not None:
        yield lost_time_chart(scenario, report)
    if report.write is not None and len(report.write.limits) > 1:
        yield limits_chart("What limits the write", report.write.limits)
    if len(report.restore.limits) > 1:
        yield limits_chart("What limits the restore", report.restore.limits)
    yield parts_chart(report.checkpoint)
    if visible_guesses(report.guesses, report.headline):
        yield guesses_chart(report)
    if report.capacity_over_time and report.capacity.growth_bytes_per_day:
        yield capacity_chart({report.model.name: report.capacity_over_time}, {})


def _bars(
    title: str,
    rows: Sequence[Mapping[str, object]],
    label: str,
    length: Spec,
    *,
    subtitle: str = "",
    stressed: str = "",
) -> Chart:
    """A bar for each row, its text beside it; the one of the name `stressed` has a color of its own."""
    names = {"field": label, "type": "nominal", "title": None, "sort": None}
    end = _at_the_end_of_its_bar(rows, label, length["field"], stressed)
    text = {"mark": {"type": "text", **end}, "encoding": {"text": {"field": "label"}}}
    shown = [{name: row[name] for name in (label, length["field"])} for row in rows if row[label] == stressed]
    over = [{"data": {"values": shown}, "mark": {"type": "bar", "color": _STRESSED}}] if shown else []
    return chart(
        title,
        subtitle=subtitle,
        rows=rows,
        height=_BAR_STEP,
        encoding={"y": names, "x": length},
        layer=[{"mark": {"type": "bar", "color": COLORS[0]}}, *over, text],
    )


def _at_the_end_of_its_bar(rows: Sequence[Mapping[str, Any]], label: str, length: str, stressed: str) -> Spec:
    """Where words stand: within a long bar at its end, beside a short one, in which they would not find room."""
    is_long = f"datum['{length}'] > {max(row[length] for row in rows) / 2}"
    on_a_bar = f"datum['{label}'] === {json.dumps(stressed)} ? '{INK}' : 'white'"
    return {
        "align": {"expr": f"{is_long} ? 'right' : 'left'"},
        "dx": {"expr": f"{is_long} ? -5 : 5"},
        "color": {"expr": f"{is_long} ? ({on_a_bar}) : '{INK}'"},
    }
