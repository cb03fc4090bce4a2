"""Layouts that fit a number of GPUs, in words: a table of the best, and what is the same in all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from sizing.layout.degrees import degrees_text
from sizing.present.rows import Grid, Summary
from sizing.questions.layouts.memory_savings import offload_text
from sizing.questions.layouts.report import FoundLayout, LayoutsReport
from sizing.questions.layouts.request import OBJECTIVES_OF_TIME
from sizing.training.schedules import default_schedule
from sizing.units import counted_text, decimal_bytes_text, min_rate_text, percent_text, seconds_text

_Number = TypeVar("_Number", int, float)

_ALWAYS = ("tensor", "pipeline", "data", "GPU memory")


def layouts_summary(report: LayoutsReport) -> Summary:
    """Put the layouts into a table, with a column for what differs, and below it what is the same in all of them."""
    rows = [dict(_list_cells(layout, report)) for layout in report.layouts]
    first = rows[0] if rows else {}
    names = [name for name in first if name in _ALWAYS or len({row[name] for row in rows}) > 1]
    cells = tuple((str(place), *(row[name] for name in names)) for place, row in enumerate(rows, 1))
    layouts, gpus = counted_text(report.num_fitting, "layout"), counted_text(report.num_gpus, "GPU")
    fit = "fits" if report.num_fitting == 1 else "fit"
    headline = f"{layouts} {fit} on {gpus}, {report.num_nodes:,} x {report.node}"
    same = ", ".join(f"{name} {text}" for name, text in first.items() if name not in names and text != "-")
    return Summary(
        headline=f"{headline}; the best {len(rows):,} by {report.objective}" if rows else headline,
        grids=(Grid("", ("#", *names), cells, is_figures=True),) if rows else (),
        remarks=(*([f"The same in all of them: {same}."] if same else []), *_list_remarks(report)),
        warnings=tuple(report.warnings),
        misses=not rows,
    )


def _list_cells(layout: FoundLayout, report: LayoutsReport) -> Iterator[tuple[str, str]]:
    """List the cells of a layout by the names of their columns."""
    degrees = layout.parallelism
    usual_schedule = default_schedule(num_chunks=degrees.virtual_pipeline)  # which the virtual stages say already
    for name in ("tensor", "pipeline", "context", "data", "expert"):
        yield name, f"{getattr(degrees, name):,}"
    yield "expert tensor", _text_or_dash(degrees.expert_tensor, "{:,}".format)
    yield "virtual stages", f"{degrees.virtual_pipeline:,}"
    yield "micro-batch", _text_or_dash(layout.micro_batch_size, "{:,}".format)
    yield "ZeRO", _text_or_dash(degrees.zero_stage, str)
    yield "shard group", _text_or_dash(degrees.shard_group, "{:,}".format)
    yield "schedule", "-" if layout.schedule in (None, usual_schedule) else str(layout.schedule)
    yield "recomputation", layout.recomputation or "-"
    yield "recomputed layers", _text_or_dash(layout.recomputed_layers, "{:,}".format)
    yield "distributed optimizer", "yes" if layout.distributed_optimizer else "-"
    yield "off the GPU", "-" if layout.offload is None else offload_text(layout.offload)
    yield "GPU memory", decimal_bytes_text(layout.gpu_bytes)
    yield "used", percent_text(layout.gpu_bytes / report.gpu_memory_bytes)
    if report.objective in OBJECTIVES_OF_TIME:
        yield "step", _text_or_dash(layout.step_seconds, seconds_text)
        yield "tokens/s", _text_or_dash(layout.tokens_per_second, "{:,.0f}".format)
        yield "MFU", _text_or_dash(layout.mfu_fraction, percent_text)
        yield "tokens/s left", _text_or_dash(layout.effective_tokens_per_second, "{:,.0f}".format)
    yield "bubble", _text_or_dash(layout.bubble_fraction, percent_text)
    yield "writers", f"{layout.num_writers:,}"
    yield "writing nodes", f"{layout.num_writing_nodes:,}"
    yield "checkpoint", decimal_bytes_text(layout.stored_bytes or layout.total_bytes)
    yield "largest rank", decimal_bytes_text(layout.max_rank_bytes)
    yield "write", _text_or_dash(layout.write_seconds, seconds_text)
    yield "stall", _text_or_dash(layout.stall_seconds, seconds_text)
    yield "restore", _text_or_dash(layout.restore_seconds, seconds_text)
    yield "min write bandwidth (without goodput)", _text_or_dash(layout.required_write_bytes_per_second, min_rate_text)


def _text_or_dash(value: _Number | None, text: Callable[[_Number], str]) -> str:
    return "-" if value is None else text(value)


def _list_remarks(report: LayoutsReport) -> Iterator[str]:
    for near in report.nearly_fitting:
        recomputed = f", recomputation {near.recomputation}" if near.recomputation else ""
        yield (
            f"Nearly fits: {degrees_text(near.parallelism)}, micro-batch {near.micro_batch_size}{recomputed}: "
            f"{_text_or_dash(near.step_seconds, seconds_text)} a step, lacks {decimal_bytes_text(near.missing_bytes)}. "
            f"It fits with {near.change}."
        )
    tried = counted_text(report.num_candidates, "combination")
    yield (
        f"{tried} of degrees tried: {report.num_refused:,} not allowed by the model or the batch, "
        f"{report.num_too_large:,} too large for {decimal_bytes_text(report.room_bytes)} of a GPU's "
        f"{decimal_bytes_text(report.gpu_memory_bytes)}."
    )
