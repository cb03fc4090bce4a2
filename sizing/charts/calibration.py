"""What a Calibration shows as charts: the rate over nodes with the fitted roofline, and the misses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sizing.charts.chart import Chart, Spec, chart, quantity, series
from sizing.charts.theme import BAND_OPACITY, HEIGHT, WIDTH
from sizing.storage.calibration import Calibration, predicted
from sizing.storage.calibration.calibrate import MIN_RATIO_OF_SIZES
from sizing.storage.calibration.calibration import DirectionFit, FittedPoint
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.storage.terms import Demand
from sizing.units import bytes_text, counted_text, percent_text

_MAX_SERIES = 5
"""Lines that a reader can still tell apart; more numbers of ranks are thinned out evenly."""
_SCALING_HEIGHT, _MISSES_HEIGHT = HEIGHT * 2 // 3, HEIGHT // 3
"""On top of each other, as wide as a page; those of writes and of reads fit its height."""
_CROSS_SIZE = 120
"""Square pixels: twice as wide as a point."""
_MAX_REASONS = 3
"""Of a grade, above the chart; the report of `ckpt-bench calibrate` has them all."""
_STEPS_PER_DOUBLING = 16
"""Points of a predicted line, so that its bend at a limit looks like one at the width of a chart."""
_NAMES: dict[Direction, str] = {"write": "write", "read": "restore"}


def calibration_chart(calibration: Calibration) -> Chart:
    """For writes and for reads: measured rates over nodes with prediction, interval and limits; and each miss."""
    views = [
        view
        for direction in DIRECTIONS
        if (fit := calibration.fit(direction)) is not None
        for view in (_scaling(calibration, fit, direction), _misses(fit, direction))
    ]
    runs = counted_text(len(calibration.run_ids), "run")
    return chart(
        f"Storage limits by engine {calibration.engine}, {runs}: grade {calibration.grade}",
        subtitle=_subtitle(calibration),
        rows=[],
        vconcat=views,
        resolve={"scale": {"color": "independent", "strokeDash": "independent", "shape": "independent"}},
    )


def _subtitle(calibration: Calibration) -> str | list[str]:
    """How to read it, and what keeps the grade below A."""
    legend = "points: measured; lines: predicted, with 90 % interval; dotted: one limit alone"
    if any(fit and fit.wrong_here for fit in (calibration.write, calibration.read)):
        legend += "; crosses: the model is wrong here"
    return [legend, *calibration.grade_reasons[:_MAX_REASONS]] if calibration.grade_reasons else legend


def _scaling(calibration: Calibration, fit: DirectionFit, direction: Direction) -> Spec:
    """Rate over nodes, a series for each number of ranks per node, at the largest size that was measured."""
    size = max(_bytes_per_stream(point) for point in fit.points)
    ranks = _chosen(sorted({point.num_streams / point.num_nodes for point in fit.points}))
    names = [_ranks_name(count) for count in ranks]
    x = quantity("num_nodes", "nodes", scale="log", axis={"values": _doublings(fit), "format": "d"})
    x["scale"] |= {"base": 2, "nice": False}
    y = quantity("bytes_per_second", f"{_NAMES[direction]} bandwidth, all nodes", scale="log")
    y["scale"]["nice"] = False
    line = {"x": x, "y": y}
    by_ranks = series("ranks", "ranks per node", names)
    lines = [row for count in ranks for row in _predicted_rows(calibration, direction, fit, ranks=count, size=size)]
    points = list(_measured_rows(fit, ranks=ranks, size=size))
    band = {"x": x, "y": y | {"field": "low_bytes_per_second"}, "y2": {"field": "high_bytes_per_second"}}
    return {
        "width": WIDTH,
        "height": _SCALING_HEIGHT,
        "title": f"{_NAMES[direction].capitalize()}, {bytes_text(size)} per rank",
        "layer": [
            _layer(lines, {"type": "area", "opacity": BAND_OPACITY}, band | {"color": by_ranks["color"]}),
            _layer(lines, "line", line | {name: by_ranks[name] for name in ("color", "strokeDash")}),
            _layer(points, "point", line | {name: by_ranks[name] for name in ("color", "shape")}),
            _layer(list(_limit_rows(fit)), {"type": "line", "strokeDash": [1, 3], "strokeWidth": 1.5}, _alone(line)),
            _layer(list(_limit_rows(fit))[1::2], {"type": "text", "align": "right", "dy": -6}, _label(line)),
        ],
    }


def _misses(fit: DirectionFit, direction: Direction) -> Spec:
    """Measured over predicted time of every measurement, by predictions that had not seen it."""
    rows = [
        {
            "held_out_seconds": point.held_out_seconds,
            "miss_fraction": point.seconds / point.held_out_seconds - 1,
            "what": f"{point.num_streams} ranks on {point.num_nodes} nodes, {bytes_text(point.total_bytes)}",
        }
        for point in fit.points
    ]
    x = quantity("held_out_seconds", "predicted without it", scale="log")
    x["scale"] |= {"nice": False, "padding": 8}
    wrong = {(found.num_nodes, found.num_streams, found.total_bytes) for found in fit.wrong_here}
    crossed = [
        row
        for row, point in zip(rows, fit.points, strict=True)
        if (point.num_nodes, point.num_streams, point.total_bytes) in wrong
    ]
    y = quantity("miss_fraction", "measured / predicted - 1")
    crosses = _layer(
        crossed, {"type": "point", "shape": "cross", "size": _CROSS_SIZE, "filled": True}, {"x": x, "y": y}
    )
    error = percent_text(fit.held_out_error_fraction)
    return {
        "width": WIDTH,
        "height": _MISSES_HEIGHT,
        "title": f"Held-out {_NAMES[direction]}s: median error {error}",
        "layer": [
            _layer([{"zero_fraction": 0}], "rule", {"y": quantity("zero_fraction", "measured / predicted - 1")}),
            _layer(
                rows,
                "point",
                {
                    "x": x,
                    "y": y,
                    "tooltip": [{"field": "what"}, {"field": "miss_fraction", "format": ".1%"}],
                },
            ),
            *([crosses] if crossed else []),
        ],
    }


def _measured_rows(fit: DirectionFit, *, ranks: Sequence[float], size: float) -> Iterator[dict[str, object]]:
    """The measurements of about that size, with one of those numbers of ranks per node."""
    for point in fit.points:
        count = point.num_streams / point.num_nodes
        if count in ranks and _bytes_per_stream(point) > size / MIN_RATIO_OF_SIZES:
            yield {
                "num_nodes": point.num_nodes,
                "bytes_per_second": point.bytes_per_second,
                "ranks": _ranks_name(count),
            }


def _predicted_rows(
    calibration: Calibration, direction: Direction, fit: DirectionFit, *, ranks: float, size: float
) -> Iterator[dict[str, object]]:
    low, high = fit.covered.num_nodes
    count = round(np.log2(2 * high / low) * _STEPS_PER_DOUBLING) + 1
    nodes = np.geomspace(low, 2 * high, count)
    total_bytes = nodes * ranks * size
    found = predicted(calibration, [Demand(total_bytes, nodes * ranks, nodes, nodes * ranks)], direction=direction)
    assert found is not None  # noqa: S101 - the direction was fitted
    rates = (total_bytes / seconds for seconds in (found.seconds, found.high_seconds, found.low_seconds))
    for where, rate, low, high in zip(nodes, *rates, strict=True):
        yield {
            "num_nodes": float(where),
            "bytes_per_second": float(rate),
            "low_bytes_per_second": float(low),
            "high_bytes_per_second": float(high),
            "ranks": _ranks_name(ranks),
        }


def _limit_rows(fit: DirectionFit) -> Iterator[dict[str, object]]:
    """The ends of the line that the node limit and the file-system limit would each allow alone."""
    for limit in fit.limits:
        if limit.resource in ("node", "file-system") and limit.value is not None:
            alone = " of one writer" if limit.resource == "file-system" and fit.holds("contention") else ""
            name = f"{limit.resource} limit{alone}" + ("" if limit.verdict == "measured" else " (lower bound)")
            for nodes in (fit.covered.num_nodes[0], 2 * fit.covered.num_nodes[1]):
                rate = limit.value * (nodes if limit.resource == "node" else 1)
                yield {"num_nodes": nodes, "bytes_per_second": rate, "limit": name}


def _alone(line: Spec) -> Spec:
    return line | {"detail": {"field": "limit"}}


def _label(line: Spec) -> Spec:
    return line | {"text": {"field": "limit"}}


def _layer(rows: list[dict[str, object]], mark: object, encoding: Spec) -> Spec:
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _bytes_per_stream(point: FittedPoint) -> float:
    return point.total_bytes / point.num_streams


def _chosen(values: list[float]) -> list[float]:
    """At most so many of sorted values as a chart can tell apart, the ends among them."""
    if len(values) <= _MAX_SERIES:
        return values
    places = np.linspace(0, len(values) - 1, _MAX_SERIES).round().astype(int)
    return [values[place] for place in places]


def _doublings(fit: DirectionFit) -> list[int]:
    """The numbers of nodes that an axis names: from the fewest measured, each twice the one before."""
    low, high = fit.covered.num_nodes
    return [round(low) << power for power in range(int(np.log2(2 * high / low)) + 1)]


def _ranks_name(ranks: float) -> str:
    return f"{ranks:g}"
