"""Answer about stages on unlike nodes: layers balanced over kinds of nodes, and who writes what then."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from pydantic import JsonValue

from sizing.cluster import ResolvedKind
from sizing.cluster.cluster import resolve_kinds
from sizing.errors import InvalidInput
from sizing.layout import CheckpointLayout, Parallelism
from sizing.layout.chunks import LayerSplit
from sizing.layout.placement import ranks_of_numbers
from sizing.layout.ranks import numbers_in_stage, scaled_bytes, written_over_total
from sizing.questions.stages.costs import StageCosts
from sizing.questions.stages.report import KindOfNodes, Pipeline, StageOnKind, StagesReport
from sizing.questions.stages.request import StagesRequest, stages_by_kind
from sizing.questions.stages.virtual_workers import plan_virtual_workers
from sizing.sized_layout import size_layout
from sizing.storage.storage import Storage, resolve_storage
from sizing.storage.transfer import as_number
from sizing.training.links import network_warnings
from sizing.training.unlike_workers import StagePlacement, balanced_partition, best_partition
from sizing.units import decimal_bytes_text

_IDLE = 0.75
"""Below this share of work, a reader asks why a balanced stage waits: a quarter of its GPUs is bought for nothing."""


def answer_stages(request: StagesRequest) -> StagesReport:
    """Find the layers and the order of kinds that make the slowest stage the fastest, and who writes what then.

    Raises InvalidInput as `report.answer` does, where the GPUs of a kind do not make whole stages, where memory, time
    or batch are not known, and where no split fits: it names the least that is missing.
    """
    scenario = request.scenario
    kinds = resolve_kinds(scenario.cluster)
    counts = stages_by_kind(kinds, scenario.parallelism)
    costs = StageCosts(scenario, kinds, headroom_fraction=request.headroom_fraction)
    placements = _balance(costs, counts)
    given = _split_as_given(request, counts)
    balanced, as_given = _report_pipeline(costs, placements), _report_pipeline(costs, given)
    checkpoint_layout = _lay_out(request, kinds, placements)
    total = checkpoint_layout.size.written_bytes
    written = count_written_by_kind(
        checkpoint_layout,
        scenario.parallelism,
        kinds=kinds,
        kind_of_stage=[each.kind for each in placements],
        storage=scenario.storage,
    )
    time = write_time(written, kinds, total_bytes=total, storage=scenario.storage)
    return StagesReport(
        model=size_layout(scenario.model_copy(update={"cluster": kinds[0].alone})).model.name,
        num_gpus=scenario.parallelism.num_gpus,
        balanced=balanced,
        as_given=as_given,
        gain_fraction=balanced.tokens_per_second / as_given.tokens_per_second - 1.0,
        change=_describe_change(request, kinds, placements, given),
        kinds=[_report_kind(number, kind, costs, placements, written[number]) for number, kind in enumerate(kinds)],
        written_bytes=total,
        write_seconds=time.seconds,
        write_limit=time.limit,
        virtual_workers=plan_virtual_workers(request, kinds),
        warnings=[
            *_warn(balanced, as_given, time.limit, kinds),
            *(text for kind in kinds for text in network_warnings(kind.node, request.scenario.parallelism.num_gpus)),
        ],
    )


def _balance(costs: StageCosts, counts: tuple[int, ...]) -> tuple[StagePlacement, ...]:
    partition = balanced_partition(costs.seconds, counts, num_layers=costs.num_layers)
    if partition is not None:
        return partition[1]
    missing = best_partition(costs.missing, counts, num_layers=costs.num_layers)
    least = missing[0] if missing else 0.0
    raise InvalidInput.of(
        "cluster.nodes",
        f"must have GPUs with at least {decimal_bytes_text(least)} more, for any split of the layers to fit",
        value=", ".join(f"{kind.name} {decimal_bytes_text(costs.room_bytes(n))}" for n, kind in enumerate(costs.kinds)),
        remedy="give more pipeline stages, more recomputation, a smaller micro_batch_size or larger GPUs",
    )


def _split_as_given(request: StagesRequest, counts: tuple[int, ...]) -> tuple[StagePlacement, ...]:
    """Split the layers as the scenario does, on the kinds in the order of cluster.nodes."""
    scenario = request.scenario
    kinds = resolve_kinds(scenario.cluster)
    num_layers = size_layout(scenario.model_copy(update={"cluster": kinds[0].alone})).model.num_layers
    split = LayerSplit.of(scenario.parallelism, num_layers)
    order = [*itertools.islice(_order_stages(request, counts), scenario.parallelism.pipeline)]
    chunks = [split.chunks_on(stage)[0] for stage in range(len(order))]
    return tuple(StagePlacement(kind, chunk.start, chunk.stop) for kind, chunk in zip(order, chunks, strict=True))


def _order_stages(request: StagesRequest, counts: tuple[int, ...]) -> Iterator[int]:
    """List the kind of each stage, GPUs in the order of cluster.nodes; part of a stage joins its kind."""
    kinds = resolve_kinds(request.scenario.cluster)
    of_kind = {kind.given: number for number, kind in enumerate(kinds)}
    left, waiting, stage = list(counts), [0] * len(kinds), request.scenario.parallelism.ranks_per_stage
    for given in request.scenario.cluster.nodes or ():
        number = of_kind[given.model_copy(update={"count": None})]
        waiting[number] += (given.count or 0) * kinds[number].node.spec.gpus_per_node
        while waiting[number] >= stage and left[number]:
            waiting[number] -= stage
            left[number] -= 1
            yield number


def _report_pipeline(costs: StageCosts, placements: Sequence[StagePlacement]) -> Pipeline:
    step = costs.step(placements)
    slowest = max(step.stage_seconds)
    stages_on_kinds = [
        StageOnKind(
            stage=stage,
            kind=costs.kinds[each.kind].name,
            first_layer=each.first,
            num_layers=each.past - each.first,
            seconds=seconds,
            busy_fraction=seconds / slowest,
            gpu_bytes=costs.memory(stage, each.first, each.past).needed_bytes,
            room_bytes=int(costs.room_bytes(each.kind)),
        )
        for stage, (each, seconds) in enumerate(zip(placements, step.stage_seconds, strict=True))
    ]
    return Pipeline(
        stages=stages_on_kinds,
        slowest_stage_seconds=slowest,
        step_seconds=step.seconds,
        tokens_per_second=step.tokens_per_second,
        fits=all(each.gpu_bytes <= each.room_bytes for each in stages_on_kinds),
    )


def _lay_out(
    request: StagesRequest, kinds: Sequence[ResolvedKind], placements: Sequence[StagePlacement]
) -> CheckpointLayout:
    """Lay out what ranks hold and write with the split: the same on any node."""
    degrees = request.scenario.parallelism.model_copy(
        update={
            "layers_per_stage": tuple(each.past - each.first for each in placements),
            "first_stage_layers": None,
            "last_stage_layers": None,
        }
    )
    return size_layout(
        request.scenario.model_copy(update={"parallelism": degrees, "cluster": kinds[0].alone})
    ).checkpoint_layout


def _describe_change(
    request: StagesRequest,
    kinds: Sequence[ResolvedKind],
    placements: Sequence[StagePlacement],
    given: Sequence[StagePlacement],
) -> dict[str, JsonValue]:
    """Describe the split by fields, and the order of the nodes where it is another one."""
    if tuple(placements) == tuple(given):
        return {}
    fields: dict[str, JsonValue] = {"parallelism.layers_per_stage": [each.past - each.first for each in placements]}
    for name in ("first_stage_layers", "last_stage_layers"):
        if getattr(request.scenario.parallelism, name) is not None:
            fields[f"parallelism.{name}"] = None
    if [each.kind for each in placements] != [each.kind for each in given]:
        fields["cluster.nodes"] = [*_order_nodes(request, kinds, placements)]
    return fields


def _order_nodes(
    request: StagesRequest, kinds: Sequence[ResolvedKind], placements: Sequence[StagePlacement]
) -> Iterator[JsonValue]:
    """Yield runs of whole nodes that give the stages their kinds. Each run rounds up the nodes needed so far."""
    stage, used, taken = request.scenario.parallelism.ranks_per_stage, [0] * len(kinds), [0] * len(kinds)
    for number, run in itertools.groupby(each.kind for each in placements):
        kind = kinds[number]
        used[number] += stage * len(list(run))
        count = -(-used[number] // kind.node.spec.gpus_per_node) - taken[number]
        taken[number] += count
        if count:
            yield kind.given.model_copy(update={"count": count}).model_dump(mode="json", exclude_none=True)


def _report_kind(
    number: int, kind: ResolvedKind, costs: StageCosts, placements: Sequence[StagePlacement], written: WrittenBytes
) -> KindOfNodes:
    on_it = [(stage, each) for stage, each in enumerate(placements) if each.kind == number]
    return KindOfNodes(
        name=kind.name,
        num_nodes=kind.count,
        num_gpus=kind.num_gpus,
        num_stages=len(on_it),
        num_layers=sum(each.past - each.first for _, each in on_it),
        max_gpu_bytes=max(costs.memory(stage, each.first, each.past).needed_bytes for stage, each in on_it),
        written_bytes=written.num_bytes,
        num_writing_nodes=written.num_nodes,
        max_node_bytes=written.max_node_bytes,
        node_write_bytes_per_second=written.node_bytes_per_second,
        write_seconds=written.seconds,
    )


def _warn(balanced: Pipeline, as_given: Pipeline, limit: str | None, kinds: Sequence[ResolvedKind]) -> Iterator[str]:
    if not as_given.fits:
        full = next(each for each in as_given.stages if each.gpu_bytes > each.room_bytes)
        yield (
            f"The split as given does not fit: stage {full.stage} needs {decimal_bytes_text(full.gpu_bytes)} of "
            f"{decimal_bytes_text(full.room_bytes)} on {full.kind}"
        )
    if limit is not None and limit != "file-system" and len(kinds) > 1:
        yield f"The nodes of {limit} bound the writing: the others and the file system wait for them"
    idle = [each for each in balanced.stages if each.busy_fraction < _IDLE]
    if idle:
        yield (
            f"Stage {idle[0].stage} on {idle[0].kind} waits {1 - idle[0].busy_fraction:.0%} of the time even so: "
            "whole layers, or memory, leave it no more"
        )


class WrittenBytes(NamedTuple):
    """What the nodes of a kind write in a save."""

    num_bytes: int
    num_nodes: int
    max_node_bytes: int
    node_bytes_per_second: float | None

    @property
    def seconds(self) -> float | None:
        """Time of the busiest node alone: its bytes over its rate. Source: definition."""
        rate = self.node_bytes_per_second
        return None if rate is None else self.max_node_bytes / rate


def count_written_by_kind(
    checkpoint_layout: CheckpointLayout,
    parallelism: Parallelism,
    *,
    kinds: Sequence[ResolvedKind],
    kind_of_stage: Sequence[int],
    storage: Storage | None,
) -> list[WrittenBytes]:
    """Count the bytes that the nodes of each kind write; the stages of a kind fill its nodes in their order."""
    scale = written_over_total(checkpoint_layout.size)
    rank_bytes = np.zeros((parallelism.pipeline, parallelism.ranks_per_stage), np.int64)
    for writer in checkpoint_layout.writers:
        ranks = ranks_of_numbers(parallelism, numbers_in_stage(writer))
        for stage in writer.span.stages:
            np.add.at(rank_bytes[stage], ranks, sum(scaled_bytes(file, scale) for file in writer.files))
    by_kind = []
    for number, kind in enumerate(kinds):
        of_kind = rank_bytes[np.asarray(kind_of_stage) == number].ravel()
        nodes = np.add.reduceat(of_kind, np.arange(0, len(of_kind), kind.node.spec.gpus_per_node))
        rate = node_rate(kind, storage)
        by_kind.append(WrittenBytes(int(of_kind.sum()), int((nodes > 0).sum()), int(nodes.max()), rate))
    return by_kind


def node_rate(kind: ResolvedKind, storage: Storage | None) -> float | None:
    """Return what one node of a kind can write: its adapters for storage, or what the storage takes of a node.

    The lower of both counts.

    Source: definition.

    >>> from sizing.cluster.cluster import Cluster, resolve_kinds
    >>> nodes = [{"count": 1, "node": "dgx-a100", "storage_nics": "2 x 100 Gb/s"}]
    >>> [node_rate(kind, None) for kind in resolve_kinds(Cluster(nodes=nodes))]
    [25000000000.0]
    """
    given, resolved = kind.node.storage_nics, resolve_storage(storage)
    profile = resolved.profile if resolved else None
    rates = [
        given.node_bytes_per_second if given else None,
        as_number(profile.write.node_bytes_per_second) if profile else None,
    ]
    known = [rate for rate in rates if rate is not None]
    return min(known) if known else None


class WriteTime(NamedTuple):
    """How long a save writes, and what bounds it; None where no rate is known."""

    seconds: float | None
    limit: str | None


def write_time(
    written: Sequence[WrittenBytes], kinds: Sequence[ResolvedKind], *, total_bytes: int, storage: Storage | None
) -> WriteTime:
    """Return the longest time that the busiest node of a kind or the file system takes: max_k (B_k/r_k), B/R.

    B_k bytes of the busiest node of kind k at rate r_k, B of the checkpoint at the file system's R.
    Source: definition; ranks wait for the last of them.
    """
    resolved = resolve_storage(storage)
    rate = as_number(resolved.profile.write.file_system_bytes_per_second) if resolved and resolved.profile else None
    limits = {kind.name: each.seconds for kind, each in zip(kinds, written, strict=True)}
    limits["file-system"] = None if rate is None else total_bytes / rate
    known = {name: seconds for name, seconds in limits.items() if seconds is not None}
    if not known:
        return WriteTime(None, None)
    limit = max(known, key=lambda name: known[name])
    return WriteTime(known[limit], limit)
