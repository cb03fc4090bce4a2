"""The chart of a scan of a storage system: how its rate grows with the number of writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sizing.present.chart import HEIGHT, WIDTH, Chart, Spec, chart, quantity, series
from sizing.storage.measurement import BenchmarkResult, Measurement, Operation
from sizing.units import binary_bytes_text, rate_text

_OPERATIONS: tuple[Operation, ...] = ("write", "restore")


def scan_chart(result: BenchmarkResult) -> Chart:
    """Draw the rate over the writers, a line for each engine, size and number of nodes; writes above restores.

    The whiskers are the 95 % intervals of the medians. Measurements that the page cache served are not drawn.
    """
    names = list(dict.fromkeys(series_name(measurement, result.measurements) for measurement in result.measurements))
    subtitle = f"run {result.run_id}; whiskers: 95 % interval of the median"
    if num_cached := sum(not measurement.is_of_storage for measurement in result.measurements):
        subtitle += f"; {num_cached} from the page cache not drawn"
    return chart(
        "Write and restore bandwidth of the storage",
        subtitle=subtitle,
        rows=[],
        vconcat=[
            _panel(rows, operation, names)
            for operation in _OPERATIONS
            if (rows := list(_rows(result.measurements, operation)))
        ],
    )


def series_name(measurement: Measurement, among: Sequence[Measurement]) -> str:
    """Name the engine of a measurement, and its settings that differ `among` the measurements of this engine."""
    texts: dict[str, Callable[[int], str]] = {
        "num_nodes": lambda count: "1 node" if count == 1 else f"{count} nodes",
        "payload_bytes_per_rank": binary_bytes_text,
        "block_bytes": lambda size: f"blocks of {binary_bytes_text(size)}",
        "threads_per_rank": lambda count: f"{count} threads",
    }
    of_engine = [other for other in among if other.engine == measurement.engine]
    parts = [measurement.engine]
    for field, text in texts.items():
        value = getattr(measurement, field)
        if value is not None and len({getattr(other, field) for other in of_engine}) > 1:
            parts.append(text(value))
    return ", ".join(parts)


def _rows(measurements: Sequence[Measurement], operation: Operation) -> Iterator[dict[str, object]]:
    for measurement in measurements:
        if measurement.operation == operation and measurement.is_of_storage:
            rate = measurement.headline_bytes_per_second
            low, high = measurement.rate_interval_bytes_per_second or (rate, rate)
            yield {
                "series": series_name(measurement, measurements),
                "num_ranks": measurement.num_ranks,
                "num_nodes": measurement.num_nodes,
                "bytes_per_second": rate,
                "low_bytes_per_second": low,
                "high_bytes_per_second": high,
                "rate": rate_text(rate),
            }


def _panel(rows: list[dict[str, object]], title: str, names: Sequence[str]) -> Spec:
    ticks = {"values": list(dict.fromkeys(row["num_ranks"] for row in rows)), "format": "d"}
    x = quantity("num_ranks", "active ranks", axis=ticks)
    x["scale"] = {"type": "log", "base": 2, "nice": False, "padding": 30}
    y = quantity("bytes_per_second", f"{title}, all ranks together")
    whiskers = {
        "x": x,
        "y": {**y, "field": "low_bytes_per_second"},
        "y2": {"field": "high_bytes_per_second"},
        "color": series("series", None, names)["color"],
    }
    tooltip = [
        {"field": field, "title": label}
        for field, label in (("series", "what"), ("num_ranks", "ranks"), ("num_nodes", "nodes"), ("rate", title))
    ]
    return {
        "width": WIDTH,
        "height": HEIGHT * 2 // 3,
        "data": {"values": rows},
        "layer": [
            {"mark": {"type": "rule", "strokeWidth": 1.5}, "encoding": whiskers},
            {
                "mark": {"type": "line", "point": True},
                "encoding": {"x": x, "y": y, "tooltip": tooltip, **series("series", None, names)},
            },
        ],
    }
