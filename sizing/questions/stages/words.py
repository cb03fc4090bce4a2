"""Stages on unlike nodes, in words: runs of equal stages, kinds of nodes, virtual workers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from sizing.present.figure_names import FieldSpelling, as_field
from sizing.present.rows import UNKNOWN, Grid, Summary
from sizing.questions.stages.report import Pipeline, StagesReport, VirtualWorker, VirtualWorkers
from sizing.units import counted_text, decimal_bytes_text, percent_text, rate_text, seconds_text

_STAGES = ("stages", "nodes", "layers", "microbatch and sends", "busy", "GPU memory", "may use")
_KINDS = ("nodes", "number", "stages", "layers", "write", "busiest node", "at", "takes")
_WORKERS = ("policy", "workers", "nodes: layers", "wave", "waits", "GPU memory", "tokens/s")
_CHECKPOINTS = ("policy", "waits to drain", "then saves", "without waiting", "updates missing")


def stages_summary(report: StagesReport, *, spelling: FieldSpelling = as_field) -> Summary:
    """Put into words both splits, what nodes of each kind write, and what HetPipe would make of them."""
    grids = [
        _pipeline_grid("Balanced", report.balanced),
        _pipeline_grid("As given", report.as_given),
        _kinds_grid(report),
        *_workers_grids([each for each in report.virtual_workers if each.reason is None]),
    ]
    stages = counted_text(len(report.balanced.stages), "stage")
    where = f"{stages} on {counted_text(len(report.kinds), 'kind')} of nodes"
    gain = f"{percent_text(report.gain_fraction)} more tokens per second than as given"
    remarks = [f"No {each.policy}: {each.reason}" for each in report.virtual_workers if each.reason is not None]
    if report.change:
        fields = [spelling(path, value) for path, value in report.change.items()]
        flags = " ".join(field for field in fields if field.startswith("--"))
        others = [field for field in fields if not field.startswith("--")]
        remarks.insert(0, f"To apply it: {'; '.join(filter(None, (flags, *others)))}")
    return Summary(
        headline=f"{where}: balanced, {gain}" if report.change else f"{where}: the split as given is balanced already",
        grids=tuple(grids),
        remarks=tuple(remarks),
        warnings=tuple(report.warnings),
        misses=not report.balanced.fits,
    )


def _pipeline_grid(name: str, pipeline: Pipeline) -> Grid:
    """Show runs of stages of one kind with as many layers each; times and memory are of the one that has most."""
    rows = []
    for (kind, layers), stages in itertools.groupby(pipeline.stages, key=lambda each: (each.kind, each.num_layers)):
        run = list(stages)
        first, last = run[0].stage, run[-1].stage
        rows.append(
            (
                str(first) if first == last else f"{first} to {last}",
                kind,
                f"{layers:,} each" if len(run) > 1 else f"{layers:,}",
                seconds_text(max(each.seconds for each in run)),
                percent_text(max(each.busy_fraction for each in run)),
                decimal_bytes_text(max(each.gpu_bytes for each in run)),
                decimal_bytes_text(run[0].room_bytes),
            )
        )
    title = f"{name}: step {seconds_text(pipeline.step_seconds)}, {pipeline.tokens_per_second:,.0f} tokens/s"
    return Grid(title if pipeline.fits else f"{title}, does not fit", _STAGES, tuple(rows), is_figures=True)


def _kinds_grid(report: StagesReport) -> Grid:
    """Show what the nodes of each kind write."""
    title = f"One checkpoint, balanced: {decimal_bytes_text(report.written_bytes)}"
    if report.write_seconds is not None and report.write_limit is not None:
        title += f" in {seconds_text(report.write_seconds)}; limit: {report.write_limit}"
    rows = []
    for kind in report.kinds:
        rate, seconds = kind.node_write_bytes_per_second, kind.write_seconds
        rows.append(
            (
                kind.name,
                f"{kind.num_nodes:,}",
                f"{kind.num_stages:,}",
                f"{kind.num_layers:,}",
                decimal_bytes_text(kind.written_bytes),
                decimal_bytes_text(kind.max_node_bytes),
                UNKNOWN if rate is None else rate_text(rate),
                UNKNOWN if seconds is None else seconds_text(seconds),
            )
        )
    return Grid(title, _KINDS, tuple(rows), is_figures=True)


def _workers_grids(policies: Sequence[VirtualWorkers]) -> Iterator[Grid]:
    """Show the virtual workers of the policies that make some, and what a consistent checkpoint of them takes."""
    if not policies:
        return
    workers = tuple(
        (
            policy.policy,
            f"{worker.count:,}",
            _layers_text(worker),
            seconds_text(worker.wave_seconds),
            percent_text(worker.waiting_fraction),
            decimal_bytes_text(worker.max_gpu_bytes),
            f"{policy.tokens_per_second or 0:,.0f}",
        )
        for policy in policies
        for worker in policy.workers
    )
    title = "Virtual workers (HetPipe): a pipeline each, data parallelism between them"
    yield Grid(title, _WORKERS, workers, is_figures=True)
    checkpoints = tuple(
        (
            policy.policy,
            seconds_text(policy.drain_seconds or 0.0),
            decimal_bytes_text(policy.drained_bytes or 0),
            decimal_bytes_text(policy.undrained_bytes or 0),
            f"of at most {policy.max_stale_minibatches or 0:,} minibatches",
        )
        for policy in policies
    )
    yield Grid("A consistent checkpoint of virtual workers", _CHECKPOINTS, checkpoints, is_figures=True)


def _layers_text(worker: VirtualWorker) -> str:
    """Write the layers of the stages on each kind, in their order: dgx-a100 4 x 6, dgx-h100 4 x 14."""
    pairs = zip(worker.kinds, worker.layers_per_stage, strict=True)
    runs = [(kind, layers, len(list(run))) for (kind, layers), run in itertools.groupby(pairs)]
    return ", ".join(f"{kind} {count} x {layers}" for kind, layers, count in runs)
