"""Layers dealt to stages on nodes of several kinds, against those that the scenario has, and who writes what."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue, ValidationError

from sizing.cluster import ResolvedKind
from sizing.cluster.cluster import resolve_kinds
from sizing.errors import InvalidInput, explain
from sizing.explore.stages.checks import stages_by_kind
from sizing.explore.stages.costs import StageCosts
from sizing.explore.stages.stages_report import KindOfNodes, Pipeline, StageOnKind, StagesReport
from sizing.explore.stages.stages_request import StagesRequest
from sizing.explore.stages.workers import virtual_workers
from sizing.explore.stages.writes import Written, write_time, written_by_kind
from sizing.layout import LaidOut
from sizing.layout.chunks import LayerSplit
from sizing.sized import sized
from sizing.training.unlike.partition import Placed, balanced_partition, best_partition
from sizing.units import decimal_bytes_text


def stages(request: StagesRequest | Mapping[str, Any]) -> StagesReport:
    """Layers and order of kinds that make the slowest stage the fastest, and who writes what then.

    Raises InvalidInput as `report.answer` does, where the GPUs of a kind do not make whole stages, where memory, time
    or batch are not known, and where no split fits: it names the least that is missing.
    """
    if not isinstance(request, StagesRequest):
        try:
            request = StagesRequest.model_validate(request)
        except ValidationError as error:
            raise explain(error, StagesRequest) from None
    return stages_of(request)


def stages_of(request: StagesRequest) -> StagesReport:
    """The same of a request that is one already. Raises InvalidInput as `stages` does."""
    scenario = request.scenario
    kinds = resolve_kinds(scenario.cluster)
    counts = stages_by_kind(kinds, scenario.parallelism)
    costs = StageCosts(scenario, kinds, headroom_fraction=request.headroom_fraction)
    placed = _balanced(costs, counts)
    given = _as_given(request, counts)
    balanced, as_given = _pipeline(costs, placed), _pipeline(costs, given)
    laid_out = _laid_out(request, kinds, placed)
    total = laid_out.size.total_bytes
    written = written_by_kind(
        laid_out,
        scenario.parallelism,
        kinds=kinds,
        kind_of_stage=[each.kind for each in placed],
        storage=scenario.storage,
    )
    time = write_time(written, kinds, total_bytes=total, storage=scenario.storage)
    return StagesReport(
        model=sized(scenario.model_copy(update={"cluster": kinds[0].alone})).model.name,
        num_gpus=scenario.parallelism.num_gpus,
        balanced=balanced,
        as_given=as_given,
        gain_fraction=balanced.tokens_per_second / as_given.tokens_per_second - 1.0,
        change=_change(request, kinds, placed, given),
        kinds=[_kind(number, kind, costs, placed, written[number]) for number, kind in enumerate(kinds)],
        written_bytes=total,
        write_seconds=time.seconds,
        write_limit=time.limit,
        virtual_workers=virtual_workers(request, kinds),
        warnings=list(_warnings(balanced, as_given, time.limit, kinds)),
    )


def _balanced(costs: StageCosts, counts: tuple[int, ...]) -> tuple[Placed, ...]:
    found = balanced_partition(costs.seconds, counts, num_layers=costs.num_layers)
    if found is not None:
        return found[1]
    missing = best_partition(costs.missing, counts, num_layers=costs.num_layers)
    least = missing[0] if missing else 0.0
    raise InvalidInput.of(
        "cluster.nodes",
        f"must have GPUs with at least {decimal_bytes_text(least)} more, for any split of the layers to fit",
        value=", ".join(f"{kind.name} {decimal_bytes_text(costs.room_bytes(n))}" for n, kind in enumerate(costs.kinds)),
        remedy="give more pipeline stages, more recomputation, a smaller micro_batch_size or larger GPUs",
    )


def _as_given(request: StagesRequest, counts: tuple[int, ...]) -> tuple[Placed, ...]:
    """The scenario's own split, on the kinds in the order of cluster.nodes."""
    scenario = request.scenario
    kinds = resolve_kinds(scenario.cluster)
    num_layers = sized(scenario.model_copy(update={"cluster": kinds[0].alone})).model.num_layers
    split = LayerSplit.of(scenario.parallelism, num_layers)
    order = [*itertools.islice(_stages_in_order(request, counts), scenario.parallelism.pipeline)]
    chunks = [split.chunks_on(stage)[0] for stage in range(len(order))]
    return tuple(Placed(kind, chunk.start, chunk.stop) for kind, chunk in zip(order, chunks, strict=True))


def _stages_in_order(request: StagesRequest, counts: tuple[int, ...]) -> Iterator[int]:
    """The kind of each stage where GPUs are numbered in the order of cluster.nodes; part of a stage joins its kind."""
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


def _pipeline(costs: StageCosts, placed: Sequence[Placed]) -> Pipeline:
    step = costs.step(placed)
    slowest = max(step.stage_seconds)
    found = [
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
        for stage, (each, seconds) in enumerate(zip(placed, step.stage_seconds, strict=True))
    ]
    return Pipeline(
        stages=found,
        slowest_stage_seconds=slowest,
        step_seconds=step.seconds,
        tokens_per_second=step.tokens_per_second,
        fits=all(each.gpu_bytes <= each.room_bytes for each in found),
    )


def _laid_out(request: StagesRequest, kinds: Sequence[ResolvedKind], placed: Sequence[Placed]) -> LaidOut:
    """What ranks hold and write with the split: the same on any node."""
    degrees = request.scenario.parallelism.model_copy(
        update={
            "layers_per_stage": tuple(each.past - each.first for each in placed),
            "first_stage_layers": None,
            "last_stage_layers": None,
        }
    )
    return sized(request.scenario.model_copy(update={"parallelism": degrees, "cluster": kinds[0].alone})).laid_out


def _change(
    request: StagesRequest, kinds: Sequence[ResolvedKind], placed: Sequence[Placed], given: Sequence[Placed]
) -> dict[str, JsonValue]:
    """The fields that say the split, and the order of the nodes where it is another one."""
    if tuple(placed) == tuple(given):
        return {}
    found: dict[str, JsonValue] = {"parallelism.layers_per_stage": [each.past - each.first for each in placed]}
    for name in ("first_stage_layers", "last_stage_layers"):
        if getattr(request.scenario.parallelism, name) is not None:
            found[f"parallelism.{name}"] = None
    if [each.kind for each in placed] != [each.kind for each in given]:
        found["cluster.nodes"] = [*_nodes_in_order(request, kinds, placed)]
    return found


def _nodes_in_order(
    request: StagesRequest, kinds: Sequence[ResolvedKind], placed: Sequence[Placed]
) -> Iterator[JsonValue]:
    """Runs of nodes that give the stages their kinds, whole nodes of which each run rounds up what it needs so far."""
    stage, used, taken = request.scenario.parallelism.ranks_per_stage, [0] * len(kinds), [0] * len(kinds)
    for number, run in itertools.groupby(each.kind for each in placed):
        kind = kinds[number]
        used[number] += stage * len(list(run))
        count = -(-used[number] // kind.node.spec.gpus_per_node) - taken[number]
        taken[number] += count
        if count:
            yield kind.given.model_copy(update={"count": count}).model_dump(mode="json", exclude_none=True)


def _kind(
    number: int, kind: ResolvedKind, costs: StageCosts, placed: Sequence[Placed], written: Written
) -> KindOfNodes:
    on_it = [(stage, each) for stage, each in enumerate(placed) if each.kind == number]
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


def _warnings(
    balanced: Pipeline, as_given: Pipeline, limit: str | None, kinds: Sequence[ResolvedKind]
) -> Iterator[str]:
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


_IDLE = 0.75
"""Below this share of work, a reader asks why a balanced stage waits: a quarter of its GPUs is bought for nothing."""
