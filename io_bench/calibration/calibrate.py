"""`ckpt-bench calibrate`: from result documents to a calibration, its tables and its chart. Needs no torch."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from io_bench.calibration.calibration_tables import (
    fits_of,
    limits_table,
    points_table,
    sentences,
    suggestion_sentences,
    wrong_table,
)
from io_bench.results.result_file import ResultFile, reserved
from io_bench.terminal import Terminal
from sizing.charts.calibration import calibration_chart
from sizing.charts.files import require_chart_name, write_chart
from sizing.cli.files import read_result
from sizing.errors import InvalidInput, UnreadableFile
from sizing.storage.calibration import Calibration, calibrate
from sizing.storage.calibration.suggestions import suggestions
from sizing.storage.measurement import BenchmarkResult


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
    with contextlib.ExitStack() as held:
        document = held.enter_context(reserved(output)) if output is not None else None
        calibration = calibrate([_result(path) for path in results], engine=engine)
        _show(calibration, terminal, suggest=suggest)
        _write(calibration, document, chart, terminal)
    return calibration


def _result(path: Path) -> BenchmarkResult:
    try:
        return read_result(path)
    except InvalidInput as error:
        raise UnreadableFile(f"{path} is not a result document of ckpt-bench: {error.problems[0].sentence}") from None


def _show(calibration: Calibration, terminal: Terminal, *, suggest: bool) -> None:
    terminal.show(limits_table(calibration))
    for operation, fit in fits_of(calibration):
        terminal.show(points_table(operation, fit))
        if (wrong := wrong_table(operation, fit)) is not None:
            terminal.show(wrong)
    for sentence in sentences(calibration):
        terminal.show(sentence)
    for warning in calibration.warnings:
        terminal.say(f"warning: {warning}")
    if suggest:
        for sentence in suggestion_sentences(suggestions(calibration), engine=calibration.engine):
            terminal.show(sentence)


def _write(calibration: Calibration, document: ResultFile | None, chart: Path | None, terminal: Terminal) -> None:
    if document is not None:
        document.write(calibration.model_dump_json(indent=2, exclude_none=True) + "\n")
        terminal.show(f"Calibration written to {document.path}. Use it with ckpt-size --storage {document.path}.")
    if chart is not None:
        write_chart(calibration_chart(calibration), chart)
        terminal.show(f"Chart written to {chart}.")
