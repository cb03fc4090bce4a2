"""Storage that kept checkpoints take over the days of a run, beside what is offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sizing.charts.chart import Chart, Spec, chart, series
from sizing.charts.theme import INK, WIDTH
from sizing.run.capacity_over_time import CapacityAt
from sizing.units import BYTES_PER_TERABYTE, SECONDS_PER_DAY

_DAYS = {"type": "quantitative", "title": "days of training"}
_TERABYTES = {"type": "quantitative", "title": "TB to hold"}


def capacity_chart(runs: Mapping[str, Sequence[CapacityAt]], offered_bytes: Mapping[str, float]) -> Chart:
    """A line over the days of each named run, and a dashed one at each capacity that is offered."""
    are_several = len(runs) > 1
    rows = [
        {"day": at.at_seconds / SECONDS_PER_DAY, "held": at.usable_bytes / BYTES_PER_TERABYTE}
        | ({"run": name} if are_several else {})
        for name, over_time in runs.items()
        for at in over_time
    ]
    color = {"color": series("run", "workload", list(runs))["color"]} if are_several else {}
    held = {"x": {"field": "day", **_DAYS}, "y": {"field": "held", **_TERABYTES}}
    names: dict[float, list[str]] = {}
    for name, num in offered_bytes.items():
        names.setdefault(num, []).append(name)
    limits = [{"offer": ", ".join(equal), "held": num / BYTES_PER_TERABYTE} for num, equal in names.items()]
    at_limit = {"y": {"field": "held", **_TERABYTES}}
    ruled: list[Spec] = [
        {"data": {"values": limits}, "mark": {"type": "rule", "strokeDash": [4, 4]}, "encoding": at_limit},
        {
            "data": {"values": limits},
            "mark": {"type": "text", "align": "left", "dy": -6, "x": 4, "color": INK},
            "encoding": at_limit | {"text": {"field": "offer"}},
        },
    ]
    line = {"data": {"values": rows}, "mark": "line", "encoding": held | color}
    return chart("Capacity over time", rows=[], height=WIDTH // 3, layer=[line, *(ruled if limits else [])])
