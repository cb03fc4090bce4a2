"""`ckpt-size sensitivity`: which given inputs move the answer most, as a table and a chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.charts.files import require_chart_name, write_chart
from sizing.charts.sensitivities import sensitivity_chart
from sizing.cli.flags import FLAGS
from sizing.cli.scenarios import AS_JSON, asked_document, laid_out
from sizing.cli.terminal import console
from sizing.errors import InvalidInput
from sizing.explore.sensitivities.sensitivity import sensitivity
from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.explore.sensitivities.sensitivity_request import DEFAULT_FRACTION
from sizing.guesses.figures import HEADLINES
from sizing.summary.figure_text import figure_text
from sizing.summary.guesses import swing_rows

SENSITIVITY_OPTIONS: dict[str, tuple[Any, Any]] = {
    "ranges": (
        list[str] | None,
        typer.Option(
            None,
            "--range",
            metavar="FIELD=LOW..HIGH",
            help="Vary a field, by its dotted name or its flag, between two values: interval=15min..4h",
        ),
    ),
    "fraction": (
        str | None,
        typer.Option(
            None, "--fraction", metavar="N", help=f"Vary other numbers so far down and up; {DEFAULT_FRACTION:g}"
        ),
    ),
    "chart": (Path | None, typer.Option(None, "--chart", help="Draw into FILE.html, .png, .svg or .json")),
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
    ranges: list[str] | None,
    fraction: str | None,
    chart: Path | None,
    as_json: bool,
    **flags: str | None,
) -> None:
    """Vary each given input alone, and show how far the headline figure moves, the largest swing first."""
    if chart is not None:
        require_chart_name(chart)
    document = asked_document(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=flags)
    request = document if "scenario" in document else {"scenario": laid_out(document)}
    report = sensitivity(request | _options(ranges, fraction))
    if chart is not None:
        write_chart(sensitivity_chart(report), chart)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(sensitivity_text(report))


def sensitivity_text(report: SensitivityReport) -> RenderableType:
    """The headline, and a row for each input."""
    figure = report.headline.figure
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("input", "given", "varied", f"{HEADLINES[figure]} then"):
        table.add_column(column)
    for row in swing_rows(report.inputs, figure):
        table.add_row(*row)
    return Group(
        Text(f"{HEADLINES[figure].capitalize()} {figure_text(figure, report.headline.value)}", style="bold"),
        table,
        *(Text(f"warning: {warning}", style="yellow") for warning in report.warnings),
    )


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
