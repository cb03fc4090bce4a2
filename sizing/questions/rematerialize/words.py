"""Which layers to compute again, in words: a table of techniques for each kind of stage."""

from __future__ import annotations

from sizing.present.rows import Grid, Summary
from sizing.questions.rematerialize.report import RematerializationReport, StageRematerialization
from sizing.units import counted_text, decimal_bytes_text, percent_text

_COLUMNS = ("technique", "computed again", "forward passes", "GPU memory", "fits", "extra compute")


def rematerialization_summary(report: RematerializationReport) -> Summary:
    """Put the plans of each kind of stage into a table, and below it the fewest layers as frameworks take them."""
    room, fewest = decimal_bytes_text(report.room_bytes), report.num_recomputed_layers
    remarks = ["Extra compute is of all passes of the stage, a backward pass taken as two forward passes"]
    if fewest is None:
        headline = f"Not even every layer computed again fits {room} of a GPU"
    elif not fewest:
        headline = f"Nothing has to be computed again: all fits {room} of a GPU"
    else:
        extra = percent_text(report.extra_compute_fraction or 0.0)
        headline = f"Compute {counted_text(fewest, 'layer')} per stage again: {extra} more compute"
        flags = f"--recompute-granularity full --recompute-method block --recompute-num-layers {fewest}"
        remarks.insert(0, f"In Megatron-LM: {flags}")
    return Summary(
        headline=headline,
        grids=tuple(map(_stage_grid, report.stages)),
        remarks=tuple(remarks),
        warnings=tuple(report.warnings),
        misses=fewest is None,
    )


def _stage_grid(stage: StageRematerialization) -> Grid:
    last = stage.first_stage + stage.num_stages - 1
    name = f"Stage {stage.first_stage}" if stage.num_stages == 1 else f"Stages {stage.first_stage} to {last}"
    layers, other = counted_text(stage.num_layers, "layer"), decimal_bytes_text(stage.other_bytes)
    rows = tuple(
        (
            plan.technique,
            f"{len(plan.recomputed_layers):,} of {stage.num_layers:,}",
            f"at most {plan.max_forward_passes:,}",
            decimal_bytes_text(plan.gpu_bytes),
            "yes" if plan.fits else "no",
            percent_text(plan.extra_compute_fraction),
        )
        for plan in stage.plans
    )
    title = f"{name}: {layers}, {stage.in_flight_microbatches:g} in flight, at most {other} else"
    return Grid(title, _COLUMNS, rows, is_figures=True)
