"""A calibration for people: fitted limits, predicted beside measured, and what it says in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich import box
from rich.table import Table

from sizing.storage.calibration import Calibration
from sizing.storage.calibration.calibration import Covered, DirectionFit, FittedPoint, LimitEstimate
from sizing.storage.calibration.rows import OPERATIONS
from sizing.storage.calibration.suggestions import Suggestion
from sizing.units import bytes_text, decimal_bytes_text, percent_text, rate_text, seconds_text


def fits_of(calibration: Calibration) -> Iterator[tuple[str, DirectionFit]]:
    """The operations that were calibrated, and their fits."""
    for direction, operation in OPERATIONS.items():
        fit = calibration.fit(direction)
        if fit is not None:
            yield operation, fit


def limits_table(calibration: Calibration) -> Table:
    """Every limit with its 90 % interval, and how much it is worth."""
    table = Table(title="Limits", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("operation", "limit", "is", "90 % interval", "verdict", "because"):
        table.add_column(name, justify="right" if name in ("is", "90 % interval") else "left")
    for operation, fit in fits_of(calibration):
        for limit in fit.limits:
            table.add_row(operation, limit.resource, *_value_cells(limit), limit.verdict, limit.reason)
    return table


def points_table(operation: str, fit: DirectionFit) -> Table:
    """Every measurement beside its prediction, and beside that of a fit without its configuration."""
    table = Table(
        title=f"Predicted against measured: {operation}",
        title_justify="left",
        caption="miss: measured / predicted - 1; held out: the same, of a fit without this configuration",
        box=box.SIMPLE_HEAD,
    )
    for name in ("nodes", "ranks per node", "bytes per rank", "measured", "predicted", "miss", "held out"):
        table.add_column(name, justify="right")
    for point in sorted(fit.points, key=lambda p: (p.num_nodes, p.num_streams, p.total_bytes)):
        table.add_row(*_point_cells(point))
    return table


def wrong_table(operation: str, fit: DirectionFit) -> Table | None:
    """The configurations in which the model is wrong; None where there is none."""
    if not fit.wrong_here:
        return None
    table = Table(title=f"The model is wrong here: {operation}", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("nodes", "ranks per node", "bytes per rank", "miss", "because"):
        table.add_column(name, justify="left" if name == "because" else "right")
    for found in fit.wrong_here:
        table.add_row(
            str(found.num_nodes),
            f"{found.num_streams / found.num_nodes:g}",
            decimal_bytes_text(found.total_bytes / found.num_streams),
            _signed_percent(found.miss_fraction),
            found.reason,
        )
    return table


def sentences(calibration: Calibration) -> Iterator[str]:
    """What the calibration is worth and what it covers."""
    date = f", last on {calibration.measured_on}" if calibration.measured_on else ""
    yield f"Grade {calibration.grade}: engine {calibration.engine}, {len(calibration.run_ids)} run(s){date}."
    for reason in calibration.grade_reasons:
        yield f"Not better because: {reason}."
    for operation, fit in fits_of(calibration):
        yield (
            f"{operation.capitalize()}: error on held-out configurations {percent_text(fit.held_out_error_fraction)} "
            f"(median; max {percent_text(fit.worst_held_out_error_fraction)}), scatter of the measurements "
            f"{percent_text(fit.noise_fraction)}. Measured: {_covered_text(fit.covered)}."
        )
        yield from _frontier_sentences(operation, fit)


def _frontier_sentences(operation: str, fit: DirectionFit) -> Iterator[str]:
    """How well smaller runs predict the largest, and what only those show."""
    if fit.frontiers:
        worst = ", ".join(
            f"largest {frontier.axis} {percent_text(frontier.worst_error_fraction)}" for frontier in fit.frontiers
        )
        yield f"{operation.capitalize()}: max error where the largest runs are left out and predicted: {worst}."
    for frontier in fit.frontiers:
        if frontier.only_here:
            yield (
                f"{operation.capitalize()}: only the runs with the largest {frontier.axis} show "
                f"{', '.join(frontier.only_here)}, so no smaller run confirms it."
            )


def suggestion_sentences(found: tuple[Suggestion, ...], *, engine: str) -> Iterator[str]:
    """Further runs, each with its reasons and command line: every run writes and restores."""
    if not found:
        yield "No further run would improve the calibration."
    reasons: dict[str, list[str]] = {}
    for suggestion in found:
        reasons.setdefault(suggestion.command(engine), []).append(suggestion.reason)
    for command, why in reasons.items():
        said = "; ".join(why)
        yield f"{said[0].upper()}{said[1:]}. Measure:\n  {command}"


def _value_cells(limit: LimitEstimate) -> tuple[str, str]:
    text = _text_of(limit.field)
    if limit.value is None:
        return "-", "-"
    bound = "at least " if limit.verdict == "lower-bound" else ""
    interval = " to ".join(map(text, limit.interval)) if limit.interval else "-"
    return bound + text(limit.value), interval


def _text_of(field: str) -> Callable[[float], str]:
    """What prints a field, by the unit that ends its name."""
    if field.endswith("bytes_per_second"):
        return rate_text
    if field.endswith("_fraction"):
        return percent_text
    return _files_text if field.endswith("files_per_second") else seconds_text


def _files_text(files_per_second: float) -> str:
    return f"{files_per_second:,.4g} files/s"


def _point_cells(point: FittedPoint) -> tuple[str, ...]:
    return (
        str(point.num_nodes),
        f"{point.num_streams / point.num_nodes:g}",
        decimal_bytes_text(point.total_bytes / point.num_streams),
        seconds_text(point.seconds),
        seconds_text(point.predicted_seconds),
        _signed_percent(point.seconds / point.predicted_seconds - 1),
        _signed_percent(point.seconds / point.held_out_seconds - 1),
    )


def _signed_percent(fraction: float) -> str:
    return f"{fraction:+.1%}".replace("%", " %")


def _covered_text(covered: Covered) -> str:
    nodes, ranks = (_span_text(span) for span in (covered.num_nodes, covered.streams_per_node))
    low, high = (bytes_text(size) for size in covered.bytes_per_stream)
    sizes = low if low == high else f"{low} to {high}"
    return f"{nodes} node(s), {ranks} rank(s) per node, {sizes} per rank"


def _span_text(span: tuple[float, float]) -> str:
    low, high = (f"{value:g}" for value in span)
    return low if low == high else f"{low} to {high}"
