"""`ckpt-size layouts`: the degrees of a model on a number of GPUs that fit their memory, the best first."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import typer

from sizing.charts.files import require_chart_name, write_chart
from sizing.charts.layouts import layouts_chart
from sizing.cli.flags import flag_words
from sizing.cli.report_files import REPORT_FILE, require_report_name, write_report
from sizing.cli.scenarios import AS_JSON, asked_document
from sizing.cli.tables import summary_text
from sizing.cli.terminal import EXIT_MISSED, WIDE_WITHOUT_TERMINAL, console, progress_bar
from sizing.explore.layouts.layouts_request import Objective
from sizing.explore.layouts.ranking import find_layouts
from sizing.layout.degrees import SEARCHED_DEGREES
from sizing.reports.document import layouts_document
from sizing.summary.layouts import layouts_summary

LAYOUTS_OPTIONS: dict[str, tuple[Any, Any]] = {
    "objective": (
        str | None,
        typer.Option(None, "--objective", metavar="NAME", help=f"The best first: {', '.join(get_args(Objective))}"),
    ),
    "headroom": (
        str | None,
        typer.Option(None, "--headroom", metavar="FRACTION", help="Fraction of GPU memory kept free (default: 0.1)"),
    ),
    "contexts": (
        str | None,
        typer.Option(None, "--contexts", metavar="N,N,...", help="Context degrees to try, such as 1,2,4"),
    ),
    "micro_batches": (
        str | None,
        typer.Option(None, "--micro-batches", metavar="N,N,...", help="Sizes of a microbatch to try, such as 1,2,4"),
    ),
    "virtual_pipelines": (
        str | None,
        typer.Option(None, "--virtual-pipelines", metavar="N,N,...", help="Virtual pipeline stages to try"),
    ),
    "expert_tensors": (
        str | None,
        typer.Option(None, "--expert-tensors", metavar="N,N,...", help="Expert-tensor degrees to try, such as 1,8"),
    ),
    "keep": (
        str | None,
        typer.Option(None, "--keep", metavar="NAME,...", help=f"Given degrees to keep: {', '.join(SEARCHED_DEGREES)}"),
    ),
    "no_offload": (bool, typer.Option(False, "--no-offload", help="Only layouts with everything on the GPU")),
    "even_stages": (bool, typer.Option(False, "--even-stages", help="Only pipeline degrees that divide the layers")),
    "max_layouts": (
        str | None,
        typer.Option(None, "--max-layouts", "--most", metavar="N", help="Max layouts to show (default: 20)"),
    ),
    "chart": (Path | None, typer.Option(None, "--chart", help="Draw into FILE.html, .png, .svg or .json")),
    "report_file": REPORT_FILE,
    "as_json": AS_JSON,
    "check": (bool, typer.Option(False, "--check", help="Exit with 1 where nothing fits")),
}


LAYOUTS_FIELDS = {
    "objective": "objective",
    "headroom": "headroom_fraction",
    "contexts": "contexts",
    "micro_batches": "micro_batches",
    "virtual_pipelines": "virtual_pipelines",
    "expert_tensors": "expert_tensors",
    "keep": "kept_degrees",
    "max_layouts": "max_layouts",
}
"""What the options set in a LayoutsRequest."""


def layouts_verb(
    scenario: Path | None = None,
    *,
    storage: Path | None,
    hf_config: Path | None,
    checkpoint: Path | None,
    chart: Path | None,
    report_file: Path | None,
    as_json: bool,
    check: bool,
    **given: Any,
) -> None:
    """Find the degrees with which a model fits on --gpus, and the storage that each needs. The best comes first.

    Everything else comes from the scenario. With --micro-batch and --sequence-length, activations count too.
    """
    require_report_name(report_file)
    if chart is not None:
        require_chart_name(chart)
    options = _request(given)
    document = asked_document(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=given)
    request = (document if "scenario" in document else {"scenario": document}) | options
    with progress_bar("Searching") as progress:
        report = find_layouts(request, progress=progress)
    if chart is not None:
        write_chart(layouts_chart(report), chart)
    write_report(lambda: layouts_document(report), report_file)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console(width_without_terminal=WIDE_WITHOUT_TERMINAL).print(
            summary_text(layouts_summary(report), flag_words(scenario, given))
        )
    if check and not report.layouts:
        raise typer.Exit(EXIT_MISSED)


def _request(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a LayoutsRequest that were given, taken out of the flags."""
    fields = {field: given.pop(option) for option, field in LAYOUTS_FIELDS.items()}
    for name in ("contexts", "micro_batches", "virtual_pipelines", "expert_tensors", "kept_degrees"):
        fields[name] = fields[name].split(",") if fields[name] else None
    fields["offload"] = False if given.pop("no_offload") else None
    fields["even_stages"] = given.pop("even_stages") or None
    return {name: value for name, value in fields.items() if value is not None}
