"""Stages on unlike nodes in words: runs of equal stages, kinds of nodes, virtual workers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

from sizing.explore.stages.stages_report import (
    KindOfNodes,
    Pipeline,
    StageOnKind,
    StagesReport,
    VirtualWorker,
    VirtualWorkers,
)
from sizing.summary.rows import UNKNOWN, Grid, Summary
from sizing.units import counted_text, decimal_bytes_text, percent_text, rate_text, seconds_text

_STAGES = ("stages", "nodes", "layers", "microbatch", "busy", "GPU memory", "may use")
_KINDS = ("nodes", "number", "stages", "layers", "write", "busiest node", "at", "takes")
_WORKERS = ("policy", "workers", "nodes: layers", "wave", "waits", "GPU memory", "tokens/s")
_CHECKPOINTS = ("policy", "waits to drain", "then saves", "without waiting", "updates missing")


def stages_summary(report: StagesReport) -> Summary:
    """Both splits, what nodes of each kind write, and what HetPipe would make of them."""
    found = [each for each in report.virtual_workers if each.reason is None]
    grids = [
        Grid(_title("Balanced", report.balanced), _STAGES, tuple(_runs(report.balanced)), is_figures=True),
        Grid(_title("As given", report.as_given), _STAGES, tuple(_runs(report.as_given)), is_figures=True),
        Grid(_written(report), _KINDS, tuple(map(_kind, report.kinds)), is_figures=True),
    ]
    if found:
        rows = [row for policy in found for row in _workers(policy)]
        title = "Virtual workers (HetPipe): a pipeline each, data parallelism between them"
        grids.append(Grid(title, _WORKERS, tuple(rows), is_figures=True))
        title = "A consistent checkpoint of virtual workers"
        grids.append(Grid(title, _CHECKPOINTS, tuple(map(_checkpoint, found)), is_figures=True))
    return Summary(
        headline=_headline(report),
        grids=tuple(grids),
        remarks=tuple(_remarks(report)),
        warnings=tuple(report.warnings),
        misses=not report.balanced.fits,
    )


def _headline(report: StagesReport) -> str:
    stages = counted_text(len(report.balanced.stages), "stage")
    where = f"{stages} on {counted_text(len(report.kinds), 'kind')} of nodes"
    if not report.change:
        return f"{where}: the split as given is balanced already"
    return f"{where}: balanced, {percent_text(report.gain_fraction)} more tokens per second than as given"


def _title(name: str, pipeline: Pipeline) -> str:
    step = f"step {seconds_text(pipeline.step_seconds)}, {pipeline.tokens_per_second:,.0f} tokens/s"
    return f"{name}: {step}" + ("" if pipeline.fits else ", does not fit")


def _runs(pipeline: Pipeline) -> Iterator[tuple[str, ...]]:
    """Consecutive stages of one kind with as many layers each; times and memory of the one that has most."""
    for (kind, layers), run in itertools.groupby(pipeline.stages, key=lambda each: (each.kind, each.num_layers)):
        yield _run(kind, layers, list(run))


def _run(kind: str, layers: int, run: list[StageOnKind]) -> tuple[str, ...]:
    first, last = run[0].stage, run[-1].stage
    return (
        str(first) if first == last else f"{first} to {last}",
        kind,
        f"{layers:,} each" if len(run) > 1 else f"{layers:,}",
        seconds_text(max(each.seconds for each in run)),
        percent_text(max(each.busy_fraction for each in run)),
        decimal_bytes_text(max(each.gpu_bytes for each in run)),
        decimal_bytes_text(run[0].room_bytes),
    )


def _written(report: StagesReport) -> str:
    told = f"One checkpoint, balanced: {decimal_bytes_text(report.written_bytes)}"
    if report.write_seconds is None or report.write_limit is None:
        return told
    return f"{told} in {seconds_text(report.write_seconds)}; limit: {report.write_limit}"


def _kind(kind: KindOfNodes) -> tuple[str, ...]:
    rate, seconds = kind.node_write_bytes_per_second, kind.write_seconds
    return (
        kind.name,
        f"{kind.num_nodes:,}",
        f"{kind.num_stages:,}",
        f"{kind.num_layers:,}",
        decimal_bytes_text(kind.written_bytes),
        decimal_bytes_text(kind.max_node_bytes),
        UNKNOWN if rate is None else rate_text(rate),
        UNKNOWN if seconds is None else seconds_text(seconds),
    )


def _workers(policy: VirtualWorkers) -> Iterator[tuple[str, ...]]:
    for worker in policy.workers:
        yield (
            policy.policy,
            f"{worker.count:,}",
            _layers(worker),
            seconds_text(worker.wave_seconds),
            percent_text(worker.waiting_fraction),
            decimal_bytes_text(worker.max_gpu_bytes),
            f"{policy.tokens_per_second or 0:,.0f}",
        )


def _layers(worker: VirtualWorker) -> str:
    """Layers of the stages on each kind, in their order: dgx-a100 4 x 6, dgx-h100 4 x 14."""
    pairs = zip(worker.kinds, worker.layers_per_stage, strict=True)
    runs = [(kind, layers, len(list(run))) for (kind, layers), run in itertools.groupby(pairs)]
    return ", ".join(f"{kind} {count} x {layers}" for kind, layers, count in runs)


def _checkpoint(policy: VirtualWorkers) -> tuple[str, ...]:
    return (
        policy.policy,
        seconds_text(policy.drain_seconds or 0.0),
        decimal_bytes_text(policy.drained_bytes or 0),
        decimal_bytes_text(policy.undrained_bytes or 0),
        f"of at most {policy.max_stale_minibatches or 0:,} minibatches",
    )


def _remarks(report: StagesReport) -> Iterator[str]:
    if report.change:
        yield "To apply it: " + "; ".join(f"{path}: {json.dumps(value)}" for path, value in report.change.items())
    for policy in report.virtual_workers:
        if policy.reason is not None:
            yield f"No {policy.policy}: {policy.reason}"
