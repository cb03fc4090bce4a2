"""HetPipe's virtual workers on the nodes of a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from sizing.cluster import ResolvedKind
from sizing.errors import InvalidInput
from sizing.explore.stages.checks import check_size
from sizing.explore.stages.costs import StageCosts
from sizing.explore.stages.stages_report import VirtualWorker, VirtualWorkers
from sizing.explore.stages.stages_request import StagesRequest
from sizing.layout.sharding import has_distributed_optimizer
from sizing.scenario import Scenario, scenario_from
from sizing.schema_versions import with_values
from sizing.sized import sized
from sizing.training.schedules.base import PipelineSchedule
from sizing.training.unlike.partition import Placed, balanced_partition
from sizing.training.unlike.virtual_workers import Composition, Grouping, global_staleness, groupings, wave_seconds

SCHEDULE = "pipedream"
"""How a virtual worker runs: without flush, each minibatch with the weights that it began with."""


def virtual_workers(request: StagesRequest, kinds: tuple[ResolvedKind, ...]) -> list[VirtualWorkers]:
    """What each policy makes of the nodes, or why none."""
    scenario = request.scenario
    worker_gpus = scenario.parallelism.tensor * scenario.parallelism.context
    devices = [kind.num_gpus // worker_gpus for kind in kinds]
    try:
        alone = worker_scenario(scenario)
        costs = StageCosts(alone, kinds, headroom_fraction=request.headroom_fraction)
        question = _Workers(request, alone, costs)
        groups = groupings(devices, question.speeds, stages=scenario.parallelism.pipeline)
        return [question.answered(grouping) for grouping in groups]
    except InvalidInput as error:
        groups = groupings(devices, [0.0] * len(kinds), stages=scenario.parallelism.pipeline)
        return [_none(grouping.policy, str(error)) for grouping in groups]


def worker_scenario(scenario: Scenario) -> Scenario:
    """One virtual worker of a scenario: a replica with its share of the batch, whose optimizer no other shares.

    Raises InvalidInput where a replica alone breaks a rule.
    """
    data, batch = scenario.parallelism.data, scenario.training.global_batch_size
    fields = worker_training(scenario) | {
        "training.global_batch_size": None if batch is None else batch // data,
        "parallelism.data": 1,
        "cluster.num_gpus": None,
    }
    return scenario_from(with_values(scenario.model_dump(mode="json", exclude_unset=True), fields))


def worker_training(scenario: Scenario) -> dict[str, JsonValue]:
    """The fields of training that make each replica a virtual worker."""
    whole: dict[str, JsonValue] = {"training.distributed_optimizer": False}
    return {"training.schedule": SCHEDULE} | (whole if has_distributed_optimizer(scenario.training) else {})


class _Workers:
    def __init__(self, request: StagesRequest, scenario: Scenario, costs: StageCosts) -> None:
        self._costs, self._distance = costs, request.clock_distance
        self._stages, self._count = scenario.parallelism.pipeline, request.scenario.parallelism.data
        laid_out = sized(scenario.model_copy(update={"cluster": costs.kinds[0].alone})).laid_out
        self._drained_bytes = laid_out.size.total_bytes

    @property
    def speeds(self) -> list[float]:
        """Of the kinds, by the time of a layer."""
        return [1.0 / self._costs.layer_seconds(kind) for kind in range(len(self._costs.kinds))]

    def answered(self, grouping: Grouping) -> VirtualWorkers:
        """The workers of a policy."""
        if grouping.reason is not None:
            return _none(grouping.policy, grouping.reason)
        found = []
        for workers in grouping.workers:
            placed = self._placed(workers.composition)
            if placed is None:
                names = [kind.name for kind, n in zip(self._costs.kinds, workers.composition, strict=True) if n]
                return _none(grouping.policy, f"no split of the layers fits a worker of {' and '.join(names)}")
            found.append((workers.number, placed))
        return self._policy(grouping.policy, found)

    def _placed(self, composition: Composition) -> tuple[Placed, ...] | None:
        check_size(composition)
        found = balanced_partition(self._costs.seconds, composition, num_layers=self._costs.num_layers)
        return None if found is None else found[1]

    def _policy(self, policy: str, workers: Sequence[tuple[int, tuple[Placed, ...]]]) -> VirtualWorkers:
        minibatches = [max(self._costs.step(placed).stage_seconds) for _, placed in workers]
        waves = [self._wave(each, placed) for each, (_, placed) in zip(minibatches, workers, strict=True)]
        slowest, execution = max(waves), self._costs.execution
        tokens = self._stages * execution.micro_batch_size * execution.sequence_length
        kept = sum(count * self._versions_bytes(placed) for count, placed in workers)
        return VirtualWorkers(
            policy=policy,
            reason=None,
            workers=[
                self._worker(count, placed, minibatch, wave, slowest)
                for (count, placed), minibatch, wave in zip(workers, minibatches, waves, strict=True)
            ],
            tokens_per_second=self._count * tokens / slowest,
            max_stale_minibatches=global_staleness(self._stages, self._distance),
            drained_bytes=self._drained_bytes,
            drain_seconds=(self._stages - 1) * max(minibatches),
            undrained_bytes=self._drained_bytes + round(kept),
        )

    def _wave(self, minibatch: float, placed: Sequence[Placed]) -> float:
        sync = max(self._costs.sync_seconds(stage, each) for stage, each in enumerate(placed))
        return wave_seconds(minibatch, sync, stages=self._stages, clock_distance=self._distance)

    def _versions_bytes(self, placed: Sequence[Placed]) -> float:
        """Weights that the minibatches in a worker's pipeline began with."""
        rules: PipelineSchedule = self._costs.execution.rules
        pipeline = self._costs.execution.pipeline
        return sum(
            rules.weight_versions(pipeline, stage) * self._costs.version_bytes(stage, each)
            for stage, each in enumerate(placed)
        )

    def _worker(
        self, count: int, placed: Sequence[Placed], minibatch: float, wave: float, slowest: float
    ) -> VirtualWorker:
        needed = [self._costs.memory(stage, each.first, each.past).needed_bytes for stage, each in enumerate(placed)]
        return VirtualWorker(
            count=count,
            kinds=[self._costs.kinds[each.kind].name for each in placed],
            layers_per_stage=[each.past - each.first for each in placed],
            minibatch_seconds=minibatch,
            wave_seconds=wave,
            waiting_fraction=1.0 - wave / slowest,
            max_gpu_bytes=max(needed),
        )


def _none(policy: str, reason: str) -> VirtualWorkers:
    return VirtualWorkers(
        policy=policy,
        reason=reason,
        workers=[],
        tokens_per_second=None,
        max_stale_minibatches=None,
        drained_bytes=None,
        drain_seconds=None,
        undrained_bytes=None,
    )
