"""`ckpt-size sensitivity`: which given inputs move the answer most, as a table and a chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from sizing.charts.files import require_chart_name, write_chart
from sizing.charts.sensitivities import sensitivity_chart
from sizing.cli.flags import FLAGS, flag_words
from sizing.cli.report_files import REPORT_FILE, require_report_name, write_report
from sizing.cli.scenarios import AS_JSON, asked_document, laid_out
from sizing.cli.tables import summary_text
from sizing.cli.terminal import console
from sizing.errors import InvalidInput
from sizing.explore.sensitivities.sensitivity import sensitivity
from sizing.explore.sensitivities.sensitivity_request import DEFAULT_FRACTION
from sizing.reports.document import sensitivity_document
from sizing.summary.sensitivities import sensitivity_summary

SENSITIVITY_OPTIONS: dict[str, tuple[Any, Any]] = {
    "ranges": (
        list[str] | None,
        typer.Option(
            None,
            "--range",
            metavar="FIELD=LOW..HIGH",
            help="Vary a field, by its dotted name or its flag, between two values (e.g. interval=15min..4h)",
        ),
    ),
    "fraction": (
        str | None,
        typer.Option(
            None,
            "--fraction",
            metavar="N",
            help=f"Vary other numbers so far down and up (default: {DEFAULT_FRACTION:g})",
        ),
    ),
    "chart": (Path | None, typer.Option(None, "--chart", help="Draw into FILE.html, .png, .svg or .json")),
    "report_file": REPORT_FILE,
    "as_json": AS_JSON,
}

SENSITIVITY_FIELDS = {"ranges": "ranges", "fraction": "fraction"}
"""What the options set in a SensitivityRequest."""

_FIELD_OF_FLAG = {flag.name.removeprefix("--"): flag.field for flag in FLAGS}


def sensitivity_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    chart: Path | None,
    report_file: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Vary each given input alone, and show how far the headline figure moves, the largest swing first."""
    require_report_name(report_file)
    if chart is not None:
        require_chart_name(chart)
    options = _options(given.pop("ranges"), given.pop("fraction"))
    document = asked_document(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=given)
    request = document if "scenario" in document else {"scenario": laid_out(document)}
    report = sensitivity(request | options)
    if chart is not None:
        write_chart(sensitivity_chart(report), chart)
    write_report(lambda: sensitivity_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(summary_text(sensitivity_summary(report), flag_words(scenario, given)))


def _options(ranges: list[str] | None, fraction: str | None) -> dict[str, Any]:
    """The fields of a SensitivityRequest that were given."""
    fields = {"ranges": dict(map(_range, ranges or ())), "fraction": fraction}
    return {name: value for name, value in fields.items() if value}


def _range(text: str) -> tuple[str, dict[str, str]]:
    """A field and its ends: `interval=15min..4h`."""
    name, _, ends = text.partition("=")
    low, dots, high = ends.partition("..")
    if not (name and low and dots and high):
        raise InvalidInput.of(
            "--range", "must be FIELD=LOW..HIGH", value=text, remedy="write it as in interval=15min..4h"
        )
    return _FIELD_OF_FLAG.get(name.removeprefix("--"), name), {"low": low, "high": high}
