"""Which layers to compute again in words: a table of techniques for each kind of stage."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.explore.rematerializations.rematerialization_report import (
    RematerializationPlan,
    RematerializationReport,
    StageRematerialization,
)
from sizing.summary.rows import Grid, Summary
from sizing.units import counted_text, decimal_bytes_text, percent_text

_COLUMNS = ("technique", "computed again", "forward passes", "GPU memory", "fits", "extra compute")


def rematerialization_summary(report: RematerializationReport) -> Summary:
    """A table for each kind of stage, and below it what frameworks call the fewest layers."""
    return Summary(
        headline=_headline(report),
        grids=tuple(
            Grid(_title(stage), _COLUMNS, tuple(_cells(plan, stage) for plan in stage.plans), is_figures=True)
            for stage in report.stages
        ),
        remarks=tuple(_remarks(report)),
        warnings=tuple(report.warnings),
        misses=report.num_recomputed_layers is None,
    )


def _headline(report: RematerializationReport) -> str:
    room = decimal_bytes_text(report.room_bytes)
    if report.num_recomputed_layers is None:
        return f"Not even every layer computed again fits {room} of a GPU"
    if not report.num_recomputed_layers:
        return f"Nothing has to be computed again: all fits {room} of a GPU"
    extra = percent_text(report.extra_compute_fraction or 0.0)
    return f"Compute {counted_text(report.num_recomputed_layers, 'layer')} per stage again: {extra} more compute"


def _title(stage: StageRematerialization) -> str:
    last = stage.first_stage + stage.num_stages - 1
    name = f"Stage {stage.first_stage}" if stage.num_stages == 1 else f"Stages {stage.first_stage} to {last}"
    layers = counted_text(stage.num_layers, "layer")
    return f"{name}: {layers}, {stage.in_flight_microbatches:g} in flight, {decimal_bytes_text(stage.other_bytes)} else"


def _cells(plan: RematerializationPlan, stage: StageRematerialization) -> tuple[str, ...]:
    return (
        plan.technique,
        f"{len(plan.recomputed_layers):,} of {stage.num_layers:,}",
        f"at most {plan.max_forward_passes:,}",
        decimal_bytes_text(plan.gpu_bytes),
        "yes" if plan.fits else "no",
        percent_text(plan.extra_compute_fraction),
    )


def _remarks(report: RematerializationReport) -> Iterator[str]:
    if report.num_recomputed_layers:
        yield (
            "In Megatron-LM: --recompute-granularity full --recompute-method block "
            f"--recompute-num-layers {report.num_recomputed_layers}"
        )
    yield "Extra compute is of all passes of the stage, a backward pass taken as two forward passes"
