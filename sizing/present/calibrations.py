"""A calibration for readers: the chart of its runs and fit, its grade, and the tables of its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sizing.present.chart import BAND_OPACITY, HEIGHT, WIDTH, Chart, Spec, chart, quantity, series
from sizing.present.document import Document, titled_document
from sizing.present.rows import UNKNOWN, Grid, Summary
from sizing.storage.calibration import Calibration, predict
from sizing.storage.calibration.calibration import DirectionFit, FittedPoint, LimitEstimate
from sizing.storage.calibration.from_results import MIN_RATIO_OF_SIZES
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.storage.terms import Demand
from sizing.units import bytes_text, counted_text, figure_text, percent_text

_MAX_SERIES = 5
"""Lines that a reader can still tell apart; more numbers of ranks are thinned out evenly."""
_SCALING_HEIGHT, _MISSES_HEIGHT = HEIGHT * 5 // 8, HEIGHT // 3
"""On top of each other, as wide as a page; those of writes and of reads fit its height below three reasons."""
_CROSS_SIZE = 120
"""Square pixels: twice as wide as a point."""
_MAX_REASONS = 3
"""Max reasons of a grade above the chart; the report of `ckpt-bench calibrate` has them all."""
_STEPS_PER_DOUBLING = 16
"""Points of a predicted line, so that its bend at a limit looks like one at the width of a chart."""
_NAMES: dict[Direction, str] = {"write": "write", "read": "restore"}


def calibration_chart(calibration: Calibration) -> Chart:
    """Draw for writes and for reads: measured rates over nodes with prediction, interval and limits; and each miss."""
    fits = [(direction, fit) for direction in DIRECTIONS if (fit := calibration.fit(direction)) is not None]
    legend = "points: measured; lines: predicted, with 90 % interval; dotted: one limit alone"
    if any(fit.wrong_here for _, fit in fits):
        legend += "; crosses: the model is wrong here"
    reasons = calibration.reason_sentences[:_MAX_REASONS]
    runs = counted_text(len(calibration.run_ids), "run")
    return chart(
        f"Storage limits by engine {calibration.engine}, {runs}: grade {calibration.grade_text}",
        subtitle=[legend, *reasons] if reasons else legend,
        rows=[],
        vconcat=[
            view
            for direction, fit in fits
            for view in (_draw_scaling(calibration, fit, direction), _draw_misses(fit, direction))
        ],
        resolve={"scale": {"color": "independent", "strokeDash": "independent", "shape": "independent"}},
    )


def _draw_scaling(calibration: Calibration, fit: DirectionFit, direction: Direction) -> Spec:
    """Draw rates over nodes, a series for each number of ranks per node, at the largest size that was measured."""
    size = max(_bytes_per_stream(point) for point in fit.points)
    ranks = _thin_out(sorted({point.num_streams / point.num_nodes for point in fit.points}))
    low, high = fit.covered.num_nodes
    doublings = [round(low) << power for power in range(int(np.log2(2 * high / low)) + 1)]
    x = quantity("num_nodes", "nodes", scale="log", axis={"values": doublings, "format": "d"})
    x["scale"] |= {"base": 2, "nice": False}
    y = quantity("bytes_per_second", f"{_NAMES[direction]} bandwidth, all nodes", scale="log")
    y["scale"]["nice"] = False
    line = {"x": x, "y": y}
    by_ranks = series("ranks", "ranks per node", [_ranks_name(count) for count in ranks])
    lines = [row for count in ranks for row in _predicted_rows(calibration, direction, fit, ranks=count, size=size)]
    points = list(_measured_rows(fit, ranks=ranks, size=size))
    limits = list(_limit_rows(fit))
    band = {"x": x, "y": y | {"field": "low_bytes_per_second"}, "y2": {"field": "high_bytes_per_second"}}
    return {
        "width": WIDTH,
        "height": _SCALING_HEIGHT,
        "title": f"{_NAMES[direction].capitalize()}, {bytes_text(size)} per rank",
        "layer": [
            _layer(lines, {"type": "area", "opacity": BAND_OPACITY}, band | {"color": by_ranks["color"]}),
            _layer(lines, "line", line | {name: by_ranks[name] for name in ("color", "strokeDash")}),
            _layer(points, "point", line | {name: by_ranks[name] for name in ("color", "shape")}),
            _layer(
                limits,
                {"type": "line", "strokeDash": [1, 3], "strokeWidth": 1.5},
                line | {"detail": {"field": "limit"}},
            ),
            _layer(
                limits[1::2],
                {"type": "text", "align": "right", "dy": -6},
                line | {"text": {"field": "limit"}},
            ),
        ],
    }


def _draw_misses(fit: DirectionFit, direction: Direction) -> Spec:
    """Draw the measured over the predicted time of each measurement, by a fit that had not seen it."""
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
    wrong = {(miss.num_nodes, miss.num_streams, miss.total_bytes) for miss in fit.wrong_here}
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
    """Yield the measurements of about that size, with one of those numbers of ranks per node, as rows of a chart."""
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
    num_steps = round(np.log2(2 * high / low) * _STEPS_PER_DOUBLING) + 1
    nodes = np.geomspace(low, 2 * high, num_steps)
    total_bytes = nodes * ranks * size
    prediction = predict(calibration, [Demand(total_bytes, nodes * ranks, nodes, nodes * ranks)], direction=direction)
    assert prediction is not None  # noqa: S101 - the direction was fitted
    times = (prediction.seconds, prediction.high_seconds, prediction.low_seconds)
    for num_nodes, rate, low, high in zip(nodes, *(total_bytes / seconds for seconds in times), strict=True):
        yield {
            "num_nodes": float(num_nodes),
            "bytes_per_second": float(rate),
            "low_bytes_per_second": float(low),
            "high_bytes_per_second": float(high),
            "ranks": _ranks_name(ranks),
        }


def _limit_rows(fit: DirectionFit) -> Iterator[dict[str, object]]:
    """Yield both ends of the line that the node limit, or the file-system limit, would allow alone."""
    for limit in fit.limits:
        if limit.resource in ("node", "file-system") and limit.value is not None:
            alone = " of one writer" if limit.resource == "file-system" and fit.holds("contention") else ""
            name = f"{limit.resource} limit{alone}" + ("" if limit.verdict == "measured" else " (lower bound)")
            for nodes in (fit.covered.num_nodes[0], 2 * fit.covered.num_nodes[1]):
                rate = limit.value * (nodes if limit.resource == "node" else 1)
                yield {"num_nodes": nodes, "bytes_per_second": rate, "limit": name}


def _layer(rows: list[dict[str, object]], mark: object, encoding: Spec) -> Spec:
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _bytes_per_stream(point: FittedPoint) -> float:
    return point.total_bytes / point.num_streams


def _thin_out(values: list[float]) -> list[float]:
    """Choose from sorted values, the ends among them, at most as many as the series of a chart can be told apart."""
    if len(values) <= _MAX_SERIES:
        return values
    places = np.linspace(0, len(values) - 1, _MAX_SERIES).round().astype(int)
    return [values[place] for place in places]


def _ranks_name(ranks: float) -> str:
    return f"{ranks:g}"


_COLUMNS = ("limit", "is", "90 % interval", "verdict", "because")
_TITLES: dict[Direction, str] = {"write": "Limits of writes", "read": "Limits of restores"}


def calibration_document(calibration: Calibration) -> Document:
    """Put a calibration into a document: its grade and the reasons, its chart, and the limits of each direction."""
    grids, remarks = [], []
    for direction in DIRECTIONS:
        if (fit := calibration.fit(direction)) is None:
            continue
        grids.append(Grid(_TITLES[direction], _COLUMNS, tuple(_limit_cells(limit) for limit in fit.limits)))
        median, worst = percent_text(fit.held_out_error_fraction), percent_text(fit.worst_held_out_error_fraction)
        configurations = counted_text(fit.num_configurations, "configuration")
        error = f"{configurations}, error on those held out {median} (median), {worst} (max)."
        remarks.append(f"{_TITLES[direction]}: {error}")
    runs = counted_text(len(calibration.run_ids), "run")
    summary = Summary(
        headline=f"Grade {calibration.grade_text}: engine {calibration.engine}, {runs}",
        grids=tuple(grids),
        remarks=tuple(remarks),
        warnings=(*calibration.reason_sentences, *calibration.warnings),
    )
    return titled_document("Calibration", summary, calibration_chart(calibration))


def _limit_cells(limit: LimitEstimate) -> tuple[str, ...]:
    value = UNKNOWN if limit.value is None else figure_text(limit.field, limit.value)
    interval = "-" if limit.interval is None else " to ".join(figure_text(limit.field, end) for end in limit.interval)
    return limit.resource, value, interval, limit.verdict.replace("-", " "), limit.reason
