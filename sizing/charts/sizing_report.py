"""What a SizingReport shows as charts: what a checkpoint holds, what limits it, how often to take it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sizing.charts.capacity import capacity_chart
from sizing.charts.chart import Chart, Spec, chart, quantity
from sizing.charts.sensitivities import guesses_chart
from sizing.charts.theme import COLORS, INK
from sizing.layout import CheckpointSize
from sizing.report import SizingReport
from sizing.run.evaluation import evaluate
from sizing.run.figures import with_arrays
from sizing.scenario import Scenario
from sizing.sized import sized
from sizing.storage.limits import Limit
from sizing.storage.transfer import Numbers
from sizing.summary.guesses import visible_guesses
from sizing.units import bytes_text, percent_text, seconds_text

_SPAN = 10.0
"""The chart goes from a tenth of the shorter to ten times the longer of the interval asked for and the best one: far
enough to see both sides rise."""
_NUM_POINTS = 200
"""A smooth line at the width of a chart."""
_HALO = {"stroke": "white", "strokeWidth": 4}
"""Below words that may lie on a color."""
_LABEL_FRACTION = 0.3
"""Of the width of a chart, which the words of a point take at most."""
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
_STRESSED = COLORS[1]
"""Of a bar that stands out, such as the limit that decides."""
_BAR_STEP = {"step": 34}
"""Pixels per bar that has a text beside it."""


def report_charts(scenario: Scenario, report: SizingReport) -> list[Chart]:
    """The charts of a scenario's report, in the order of its questions."""
    return list(_charts(scenario, report))


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
    around = np.geomspace(min(best, period) / _SPAN, max(best, period) * _SPAN, _NUM_POINTS)
    intervals = np.unique([*around, best, period])
    inputs = with_arrays(scenario, {"checkpoint.interval_seconds": intervals}).run_inputs
    shares = evaluate(sized(scenario).demands, inputs).report.shares.by_name
    lost = [name for name in shares if name != "goodput"]
    total = np.sum([np.broadcast_to(shares[name], intervals.shape) for name in lost], axis=0)
    points = sorted(_points(intervals, total, asked=period, best=best), key=lambda point: point["interval_seconds"])
    known = intervals[~np.isnan(total)]
    height = quantity("lost_fraction", "share of wall time lost")
    return chart(
        "Share of wall time lost, by checkpoint interval",
        subtitle="stalls of completed saves, lost work (RPO) done again, and recovery (RTO)"
        + (" without the restore, whose time is not known" if asked.interval.leaves_out_restore else ""),
        rows=list(_lost_rows(intervals, {name: shares[name] for name in lost})),
        encoding={
            "x": quantity("interval_seconds", "checkpoint interval, start to start", axis=_TIME_AXIS)
            | {"scale": {"type": "log", "nice": False}},
        },
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
                _label(height, point, is_last=point is points[-1], is_first=_is_at_left(point, known), drawn=drawn)
                for point in points
                for drawn in (_HALO, {})
            ),
        ],
    )


def _label(
    height: Mapping[str, Any],
    point: Mapping[str, Any],
    *,
    is_last: bool,
    is_first: bool,
    drawn: Mapping[str, object],
) -> dict[str, object]:
    """The words of a point, away from the other one however near that is, and within the axes."""
    side = {"align": "left", "dx": 6} if is_last or is_first else {"align": "right", "dx": -6}
    beside = 16 if is_first and not is_last else -12
    return {
        "data": {"values": [point]},
        "mark": {"type": "text", "dy": beside, **side, **drawn},
        "encoding": {"y": height, "text": {"field": "label"}},
    }


def _is_at_left(point: Mapping[str, Any], intervals: npt.NDArray[np.float64]) -> bool:
    """Whether the words of a point would not find room between it and the axis on its left."""
    width = np.log(intervals[-1] / intervals[0])
    return bool(np.log(point["interval_seconds"] / intervals[0]) < _LABEL_FRACTION * width)


def _points(
    intervals: npt.NDArray[np.float64], lost: npt.NDArray[np.float64], *, asked: float, best: float
) -> Iterator[dict[str, Any]]:
    """The points of the curve that a reader looks for: the interval asked for, and the lowest.

    That is the best interval but where tiers have best ones of their own, which this curve leaves as they are given.
    """
    at_best = int(np.searchsorted(intervals, best))
    is_lowest = lost[at_best] <= np.nanmin(lost) * (1 + _SAME)
    lowest = at_best if is_lowest else int(np.nanargmin(lost))
    places = {"as asked": int(np.searchsorted(intervals, asked)), "best": lowest}
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
    if visible_guesses(report):
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
    text = {"mark": {"type": "text", "align": "left", "dx": 5}, "encoding": {"text": {"field": "label"}}}
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
