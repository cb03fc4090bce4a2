"""Capacity over the days of a run: a table of what checkpoints take, and a chart of it beside what is offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sizing.present.chart import INK, WIDTH, Chart, Spec, chart, series
from sizing.present.rows import Grid
from sizing.run.retention import CapacityAt
from sizing.units import (
    BYTES_PER_TERABYTE,
    SECONDS_PER_DAY,
    decimal_bytes_text,
    seconds_text,
)

_DAYS = {"type": "quantitative", "title": "days of training"}
_TERABYTES = {"type": "quantitative", "title": "TB to hold"}


def capacity_chart(runs: Mapping[str, Sequence[CapacityAt]], offered_bytes: Mapping[str, float]) -> Chart:
    """Draw a line over the days of each named run, and a dashed one at each capacity that is offered."""
    are_several = len(runs) > 1
    rows = [
        {"days": at.at_seconds / SECONDS_PER_DAY, "held_terabytes": at.usable_bytes / BYTES_PER_TERABYTE}
        | ({"run": name} if are_several else {})
        for name, over_time in runs.items()
        for at in over_time
    ]
    color = {"color": series("run", "workload", list(runs))["color"]} if are_several else {}
    held = {"x": {"field": "days", **_DAYS}, "y": {"field": "held_terabytes", **_TERABYTES}}
    names: dict[float, list[str]] = {}
    for name, num in offered_bytes.items():
        names.setdefault(num, []).append(name)
    limits = [{"offer": ", ".join(equal), "held_terabytes": num / BYTES_PER_TERABYTE} for num, equal in names.items()]
    at_limit = {"y": {"field": "held_terabytes", **_TERABYTES}}
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


def capacity_grid(over_time: Sequence[CapacityAt]) -> Grid:
    """List what the storage must hold, from each change to the next."""
    return Grid(
        "Capacity over time",
        ("after", "checkpoints", "of them", "kept weights", "usable to hold all"),
        tuple(
            (
                seconds_text(at.at_seconds),
                f"{at.num_checkpoints:,}",
                decimal_bytes_text(at.checkpoints_bytes),
                decimal_bytes_text(at.kept_weights_bytes),
                decimal_bytes_text(at.usable_bytes),
            )
            for at in over_time
        ),
    )
