"""`ckpt-size stages`: which layers to put on which kind of node, and who writes what then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from sizing.charts.files import require_chart_name, write_chart
from sizing.charts.stages import stages_chart
from sizing.cli.report_files import REPORT_FILE, require_report_name, write_report
from sizing.cli.scenarios import AS_JSON, asked_document
from sizing.cli.tables import summary_text
from sizing.cli.terminal import console
from sizing.explore.stages.stages import stages
from sizing.reports.document import stages_document
from sizing.summary.stages import stages_summary

STAGES_OPTIONS: dict[str, tuple[Any, Any]] = {
    "headroom": (
        str | None,
        typer.Option(None, "--headroom", metavar="FRACTION", help="Fraction of GPU memory kept free. Default: 0.1"),
    ),
    "clock_distance": (
        str | None,
        typer.Option(
            None, "--clock-distance", metavar="N", help="Waves by which virtual workers may be apart. Default: 0"
        ),
    ),
    "chart": (Path | None, typer.Option(None, "--chart", help="Draw into FILE.html, .png, .svg or .json")),
    "report_file": REPORT_FILE,
    "as_json": AS_JSON,
}

STAGES_FIELDS = {"headroom": "headroom_fraction", "clock_distance": "clock_distance"}
"""What the options set in a StagesRequest."""


def stages_verb(
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
    """Say which layers to put on which kind of node (Pipe-torch), how HetPipe would group them, and who writes what.

    Give --nodes, --sequence-length, --micro-batch and --global-batch, or a scenario with them.
    """
    if chart is not None:
        require_chart_name(chart)
    require_report_name(report_file)
    fields = {field: given.pop(option) for option, field in STAGES_FIELDS.items()}
    options = {name: value for name, value in fields.items() if value is not None}
    document = asked_document(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=given)
    report = stages((document if "scenario" in document else {"scenario": document}) | options)
    if chart is not None:
        write_chart(stages_chart(report), chart)
    write_report(lambda: stages_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console().print(summary_text(stages_summary(report)))
