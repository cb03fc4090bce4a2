"""Layouts that fit a number of GPUs in words: a table of the best, and what is the same in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from sizing.explore.layouts.layouts_report import FoundLayout, LayoutsReport
from sizing.explore.layouts.layouts_request import OBJECTIVES_OF_TIME
from sizing.explore.layouts.offloads import offload_text
from sizing.layout.degrees import degrees_text
from sizing.summary.rows import Grid, Summary
from sizing.training.schedules.registry import default_schedule
from sizing.units import counted_text, decimal_bytes_text, percent_text, rate_text, seconds_text

_Number = TypeVar("_Number", int, float)

_ALWAYS = ("tensor", "pipeline", "data", "GPU memory")


def layouts_summary(report: LayoutsReport) -> Summary:
    """The layouts as a table; what is the same in all of them below it."""
    rows = [dict(_cells(layout, report)) for layout in report.layouts]
    names = _differing(rows)
    cells = tuple((str(place), *(row[name] for name in names)) for place, row in enumerate(rows, 1))
    return Summary(
        headline=_title(report),
        grids=(Grid("", ("#", *names), cells, is_figures=True),) if rows else (),
        remarks=tuple(_notes(report, rows, names)),
        warnings=tuple(report.warnings),
        misses=not rows,
    )


def _differing(rows: list[dict[str, str]]) -> list[str]:
    """The columns to show: those in which layouts differ, and some always."""
    return [name for name in (rows[0] if rows else ()) if name in _ALWAYS or len({row[name] for row in rows}) > 1]


def _title(report: LayoutsReport) -> str:
    layouts, gpus = counted_text(report.num_fitting, "layout"), counted_text(report.num_gpus, "GPU")
    fit = "fits" if report.num_fitting == 1 else "fit"
    found = f"{layouts} {fit} on {gpus}, {report.num_nodes:,} x {report.node}"
    return f"{found}; the best {len(report.layouts):,} by {report.objective}" if report.layouts else found


def _cells(layout: FoundLayout, report: LayoutsReport) -> Iterator[tuple[str, str]]:
    degrees = layout.parallelism
    for name in ("tensor", "pipeline", "context", "data", "expert"):
        yield name, f"{getattr(degrees, name):,}"
    yield "expert tensor", _known(degrees.expert_tensor, "{:,}".format)
    yield "virtual stages", f"{degrees.virtual_pipeline:,}"
    yield "micro-batch", _known(layout.micro_batch_size, "{:,}".format)
    yield "ZeRO", _known(degrees.zero_stage, str)
    yield "shard group", _known(degrees.shard_group, "{:,}".format)
    yield "schedule", _schedule(layout)
    yield "recomputation", layout.recomputation or "-"
    yield "recomputed layers", _known(layout.recomputed_layers, "{:,}".format)
    yield "off the GPU", "-" if layout.offload is None else offload_text(layout.offload)
    yield "GPU memory", decimal_bytes_text(layout.gpu_bytes)
    yield "used", percent_text(layout.gpu_bytes / report.gpu_memory_bytes)
    if report.objective in OBJECTIVES_OF_TIME:
        yield from _times(layout)
    yield "bubble", _known(layout.bubble_fraction, percent_text)
    yield "writers", f"{layout.num_writers:,}"
    yield "writing nodes", f"{layout.num_writing_nodes:,}"
    yield "checkpoint", decimal_bytes_text(layout.total_bytes)
    yield "largest rank", decimal_bytes_text(layout.max_rank_bytes)
    yield "write", _known(layout.write_seconds, seconds_text)
    yield "stall", _known(layout.stall_seconds, seconds_text)
    yield "restore", _known(layout.restore_seconds, seconds_text)
    yield "min write bandwidth", _known(layout.required_write_bytes_per_second, rate_text)


def _schedule(layout: FoundLayout) -> str:
    """Where it is not what the virtual stages say already."""
    usual = default_schedule(num_chunks=layout.parallelism.virtual_pipeline)
    return "-" if layout.schedule in (None, usual) else str(layout.schedule)


def _times(layout: FoundLayout) -> Iterator[tuple[str, str]]:
    yield "step", _known(layout.step_seconds, seconds_text)
    yield "tokens/s", _known(layout.tokens_per_second, "{:,.0f}".format)
    yield "MFU", _known(layout.mfu_fraction, percent_text)
    yield "tokens/s left", _known(layout.effective_tokens_per_second, "{:,.0f}".format)


def _known(value: _Number | None, text: Callable[[_Number], str]) -> str:
    return "-" if value is None else text(value)


def _notes(report: LayoutsReport, rows: list[dict[str, str]], differing: list[str]) -> Iterator[str]:
    same = [
        f"{name} {text}" for name, text in (rows[0] if rows else {}).items() if name not in differing and text != "-"
    ]
    if same:
        yield f"The same in all of them: {', '.join(same)}."
    for near in report.nearly_fitting:
        recomputed = f", recomputation {near.recomputation}" if near.recomputation else ""
        yield (
            f"Nearly fits: {degrees_text(near.parallelism)}, micro-batch {near.micro_batch_size}{recomputed}: "
            f"{_known(near.step_seconds, seconds_text)} a step, lacks {decimal_bytes_text(near.missing_bytes)}. "
            f"It fits with {near.change}."
        )
    tried = counted_text(report.num_candidates, "combination")
    yield (
        f"{tried} of degrees tried: {report.num_refused:,} not allowed by the model or the batch, "
        f"{report.num_too_large:,} too large for {decimal_bytes_text(report.room_bytes)} of a GPU's "
        f"{decimal_bytes_text(report.gpu_memory_bytes)}."
    )
