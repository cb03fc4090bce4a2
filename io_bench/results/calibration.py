"""`ckpt-bench calibrate`: from result documents to a calibration, its tables and its chart. Needs no torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rich import box
from rich.table import Table

from io_bench.results.outputs import reserve_result_file
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput, UnreadableFile
from sizing.present.calibrations import calibration_chart
from sizing.storage.calibration import Calibration, calibrate
from sizing.storage.calibration.calibration import Covered, DirectionFit, LimitEstimate
from sizing.storage.calibration.fit_data import OPERATIONS, RunMeasurement, select_unchecked
from sizing.storage.calibration.suggestions import Suggestion, placeholders_text, suggest_runs
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.rates import DIRECTIONS
from sizing.terminal.chart_files import require_chart_name, write_chart
from sizing.terminal.storage_files import read_result
from sizing.units import bytes_text, decimal_bytes_text, figure_text, percent_text, seconds_text


def fits_of(calibration: Calibration) -> Iterator[tuple[str, DirectionFit]]:
    """Yield each operation that was calibrated, with its fit."""
    for direction, operation in OPERATIONS.items():
        fit = calibration.fit(direction)
        if fit is not None:
            yield operation, fit


def limits_table(calibration: Calibration) -> Table:
    """Table of every limit with its 90 % interval, and how well it is known."""
    table = Table(title="Limits", title_justify="left", box=box.SIMPLE_HEAD)
    figures = ("is", "90 % interval", "computed with")
    for name in ("operation", "limit", *figures, "verdict", "because"):
        table.add_column(name, justify="right" if name in figures else "left")
    for operation, fit in fits_of(calibration):
        for limit in fit.limits:
            table.add_row(operation, limit.resource, *_value_cells(limit), limit.verdict, limit.reason)
    return table


def points_table(operation: str, fit: DirectionFit) -> Table:
    """Table of every measurement beside its prediction, and beside that of a fit without its configuration."""
    table = Table(
        title=f"Predicted against measured: {operation}",
        title_justify="left",
        caption="miss: measured / predicted - 1; held out: the same, of a fit without this configuration",
        box=box.SIMPLE_HEAD,
    )
    for name in ("nodes", "ranks per node", "bytes per rank", "measured", "predicted", "miss", "held out"):
        table.add_column(name, justify="right")
    for point in sorted(fit.points, key=lambda p: (p.num_nodes, p.num_streams, p.total_bytes)):
        table.add_row(
            str(point.num_nodes),
            f"{point.num_streams / point.num_nodes:g}",
            decimal_bytes_text(point.total_bytes / point.num_streams),
            seconds_text(point.seconds),
            seconds_text(point.predicted_seconds),
            _signed_percent(point.seconds / point.predicted_seconds - 1),
            _signed_percent(point.seconds / point.held_out_seconds - 1),
        )
    return table


def wrong_table(operation: str, fit: DirectionFit) -> Table | None:
    """Table of the configurations in which the model is wrong; None where there is none."""
    if not fit.wrong_here:
        return None
    table = Table(title=f"The model is wrong here: {operation}", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("nodes", "ranks per node", "bytes per rank", "miss", "because"):
        table.add_column(name, justify="left" if name == "because" else "right")
    for point in fit.wrong_here:
        table.add_row(
            str(point.num_nodes),
            f"{point.num_streams / point.num_nodes:g}",
            decimal_bytes_text(point.total_bytes / point.num_streams),
            _signed_percent(point.miss_fraction),
            point.reason,
        )
    return table


def sentences(calibration: Calibration) -> Iterator[str]:
    """Sentences that report how good the calibration is, and what it covers."""
    date = f", last on {calibration.measured_on}" if calibration.measured_on else ""
    yield f"Grade {calibration.grade_text}: engine {calibration.engine}, {len(calibration.run_ids)} run(s){date}."
    yield from calibration.reason_sentences
    for operation, fit in fits_of(calibration):
        title = operation.capitalize()
        yield (
            f"{title}: error on held-out configurations {percent_text(fit.held_out_error_fraction)} "
            f"(median; max {percent_text(fit.worst_held_out_error_fraction)}), scatter of the measurements "
            f"{percent_text(fit.noise_fraction)}. Measured: {_covered_text(fit.covered)}."
        )
        if fit.frontiers:
            worst = ", ".join(
                f"largest {each.axis} {percent_text(each.worst_error_fraction)}" for each in fit.frontiers
            )
            yield f"{title}: max error where the largest runs are left out and predicted: {worst}."


def suggestion_sentences(suggestions: tuple[Suggestion, ...], *, rows: Sequence[RunMeasurement]) -> Iterator[str]:
    """Sentences that suggest further runs beside those of the rows, each with its reasons and command line."""
    if not suggestions:
        yield "No further run would improve the calibration."
    reasons: dict[tuple[str, str], list[str]] = {}
    for suggestion in suggestions:
        where = placeholders_text(suggestion.num_nodes)
        reasons.setdefault((suggestion.command(rows), where), []).append(suggestion.reason)
    for (command, where), of_command in reasons.items():
        reason = "; ".join(of_command)
        yield f"{reason[0].upper()}{reason[1:]}. Measure{' ' if where else ''}{where}:\n  {command}"


def _value_cells(limit: LimitEstimate) -> tuple[str, str, str]:
    text = partial(figure_text, limit.field)
    profile = "-" if limit.profile_value is None else text(limit.profile_value)
    if limit.value is None:
        return "-", "-", profile
    bound = "at least " if limit.verdict == "lower-bound" else ""
    interval = " to ".join(map(text, limit.interval)) if limit.interval else "-"
    return bound + text(limit.value), interval, profile


def _signed_percent(fraction: float) -> str:
    return f"{fraction:+.1%}".replace("%", " %")


def _covered_text(covered: Covered) -> str:
    nodes, ranks = (map("{:g}".format, span) for span in (covered.num_nodes, covered.streams_per_node))
    sizes = map(bytes_text, covered.bytes_per_stream)
    num_nodes, num_ranks, size = (low if low == high else f"{low} to {high}" for low, high in (nodes, ranks, sizes))
    return f"{num_nodes} node(s), {num_ranks} rank(s) per node, {size} per rank"


def calibrate_files(
    results: Sequence[Path],
    *,
    engine: str | None,
    output: str | None,
    chart: Path | None,
    suggest: bool,
    terminal: Terminal,
) -> Calibration:
    """Fit the results, show what they say, and fill the files that were asked for.

    Raises InvalidInput or UnreadableFile.
    """
    if not results:
        raise InvalidInput.of(
            "the results", "are missing", value=None, remedy="give result documents of ckpt-bench run or scan"
        )
    if chart is not None:
        require_chart_name(chart)
    with contextlib.ExitStack() as stack:
        document = stack.enter_context(reserve_result_file(output)) if output is not None else None
        documents = [_read_result(path) for path in results]
        calibration = calibrate(documents, engine=engine)
        _show(calibration, terminal)
        if suggest:
            rows = [
                row
                for direction in DIRECTIONS
                for row in select_unchecked(documents, direction, engine=calibration.engine).rows
            ]
            for sentence in suggestion_sentences(suggest_runs(calibration), rows=rows):
                terminal.show(sentence)
        if document is not None:
            document.write(calibration.model_dump_json(indent=2, exclude_none=True) + "\n")
            terminal.show(f"Calibration written to {document.path}. Use it with ckpt-size --storage {document.path}.")
        if chart is not None:
            write_chart(calibration_chart(calibration), chart)
            terminal.show(f"Chart written to {chart}.")
    return calibration


def _read_result(path: Path) -> BenchmarkResult:
    try:
        return read_result(path)
    except InvalidInput as error:
        raise UnreadableFile(f"{path} is not a result document of ckpt-bench: {error.problems[0].sentence}") from None


def _show(calibration: Calibration, terminal: Terminal) -> None:
    terminal.show(limits_table(calibration))
    for operation, fit in fits_of(calibration):
        terminal.show(points_table(operation, fit))
        if (wrong := wrong_table(operation, fit)) is not None:
            terminal.show(wrong)
    for sentence in sentences(calibration):
        terminal.show(sentence)
    for warning in calibration.warnings:
        terminal.say(f"warning: {warning}")
