"""`ckpt-size layouts`: the degrees of a model on a number of GPUs that fit their memory, the best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.charts.files import require_chart_name, write_chart
from sizing.charts.layouts import layouts_chart
from sizing.cli.scenarios import AS_JSON, asked_document
from sizing.cli.terminal import EXIT_MISSED, WIDE_WITHOUT_TERMINAL, console, progress_bar
from sizing.explore.layouts.layouts_report import FoundLayout, LayoutsReport
from sizing.explore.layouts.layouts_request import Objective
from sizing.explore.layouts.ranking import find_layouts
from sizing.layout.degrees import SEARCHED_DEGREES
from sizing.units import counted_text, decimal_bytes_text, percent_text, rate_text, seconds_text

_Number = TypeVar("_Number", int, float)

_ALWAYS = ("tensor", "pipeline", "data", "GPU memory")

LAYOUTS_OPTIONS: dict[str, tuple[Any, Any]] = {
    "objective": (
        str | None,
        typer.Option(None, "--objective", metavar="NAME", help=f"The best first: {', '.join(get_args(Objective))}"),
    ),
    "headroom": (
        str | None,
        typer.Option(None, "--headroom", metavar="FRACTION", help="Fraction of GPU memory kept free. Default: 0.1"),
    ),
    "contexts": (
        str | None,
        typer.Option(None, "--contexts", metavar="N,N,...", help="Context degrees to try, such as 1,2,4"),
    ),
    "keep": (
        str | None,
        typer.Option(None, "--keep", metavar="NAME,...", help=f"Given degrees to keep: {', '.join(SEARCHED_DEGREES)}"),
    ),
    "even_stages": (bool, typer.Option(False, "--even-stages", help="Only pipeline degrees that divide the layers")),
    "max_layouts": (
        str | None,
        typer.Option(None, "--max-layouts", "--most", metavar="N", help="Max layouts to show. Default: 20"),
    ),
    "chart": (Path | None, typer.Option(None, "--chart", help="Draw into FILE.html, .png, .svg or .json")),
    "as_json": AS_JSON,
    "check": (bool, typer.Option(False, "--check", help="Exit with 1 where nothing fits")),
}


LAYOUTS_FIELDS = {
    "objective": "objective",
    "headroom": "headroom_fraction",
    "contexts": "contexts",
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
    as_json: bool,
    check: bool,
    **given: Any,
) -> None:
    """Find the degrees with which a model fits on --gpus, and the storage that each needs. The best comes first.

    Everything else comes from the scenario. With --micro-batch and --sequence-length, activations count too.
    """
    if chart is not None:
        require_chart_name(chart)
    options = _request(given)
    document = asked_document(scenario, storage=storage, hf_config=hf_config, checkpoint=checkpoint, flags=given)
    request = (document if "scenario" in document else {"scenario": document}) | options
    with progress_bar("Searching") as progress:
        report = find_layouts(request, progress=progress)
    if chart is not None:
        write_chart(layouts_chart(report), chart)
    if as_json:
        print(report.model_dump_json(indent=2))
    else:
        console(width_without_terminal=WIDE_WITHOUT_TERMINAL).print(layouts_text(report))
    if check and not report.layouts:
        raise typer.Exit(EXIT_MISSED)


def layouts_text(report: LayoutsReport) -> RenderableType:
    """The layouts as a table; what is the same in all of them below it."""
    rows = [dict(_cells(layout, report)) for layout in report.layouts]
    differing = _differing(rows)
    title = Text(_title(report), style="bold cyan")
    tables = [_table(rows, differing)] if rows else []
    return Group(title, *tables, *(Text(line) for line in _notes(report, rows, differing)))


def _differing(rows: list[dict[str, str]]) -> list[str]:
    """The columns to show: those in which layouts differ, and some always."""
    return [name for name in (rows[0] if rows else ()) if name in _ALWAYS or len({row[name] for row in rows}) > 1]


def _table(rows: list[dict[str, str]], names: list[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def _request(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a LayoutsRequest that were given, taken out of the flags."""
    fields = {field: given.pop(option) for option, field in LAYOUTS_FIELDS.items()}
    for name in ("contexts", "kept_degrees"):
        fields[name] = fields[name].split(",") if fields[name] else None
    fields["even_stages"] = given.pop("even_stages") or None
    return {name: value for name, value in fields.items() if value is not None}


def _title(report: LayoutsReport) -> str:
    layouts, gpus = counted_text(report.num_fitting, "layout"), counted_text(report.num_gpus, "GPU")
    fit = "fits" if report.num_fitting == 1 else "fit"
    found = f"{layouts} {fit} on {gpus}, {report.num_nodes:,} x {report.node}"
    return f"{found}; the best {len(report.layouts):,} by {report.objective}" if report.layouts else found


def _cells(layout: FoundLayout, report: LayoutsReport) -> Iterator[tuple[str, str]]:
    degrees = layout.parallelism
    for name in ("tensor", "pipeline", "context", "data", "expert"):
        yield name, f"{getattr(degrees, name):,}"
    yield "ZeRO", _known(degrees.zero_stage, str)
    yield "shard group", _known(degrees.shard_group, "{:,}".format)
    yield "recomputation", layout.recomputation or "-"
    yield "GPU memory", decimal_bytes_text(layout.gpu_bytes)
    yield "used", percent_text(layout.gpu_bytes / report.gpu_memory_bytes)
    yield "bubble", _known(layout.bubble_fraction, percent_text)
    yield "writers", f"{layout.num_writers:,}"
    yield "writing nodes", f"{layout.num_writing_nodes:,}"
    yield "checkpoint", decimal_bytes_text(layout.total_bytes)
    yield "largest rank", decimal_bytes_text(layout.max_rank_bytes)
    yield "write", _known(layout.write_seconds, seconds_text)
    yield "stall", _known(layout.stall_seconds, seconds_text)
    yield "restore", _known(layout.restore_seconds, seconds_text)
    yield "min write bandwidth", _known(layout.required_write_bytes_per_second, rate_text)


def _known(value: _Number | None, text: Callable[[_Number], str]) -> str:
    return "-" if value is None else text(value)


def _notes(report: LayoutsReport, rows: list[dict[str, str]], differing: list[str]) -> Iterator[str]:
    same = [
        f"{name} {text}" for name, text in (rows[0] if rows else {}).items() if name not in differing and text != "-"
    ]
    if same:
        yield f"The same in all of them: {', '.join(same)}."
    tried = counted_text(report.num_candidates, "combination")
    yield (
        f"{tried} of degrees tried: {report.num_refused:,} not allowed by the model or the batch, "
        f"{report.num_too_large:,} too large for {decimal_bytes_text(report.room_bytes)} of a GPU's "
        f"{decimal_bytes_text(report.gpu_memory_bytes)}."
    )
    yield from (f"warning: {warning}" for warning in report.warnings)
