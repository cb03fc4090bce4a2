"""HetPipe's virtual workers on the nodes of a scenario."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from sizing.cluster import ResolvedKind
from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.layout.sharding import has_distributed_optimizer
from sizing.questions.stages.costs import StageCosts
from sizing.questions.stages.report import VirtualWorker, VirtualWorkers
from sizing.questions.stages.request import StagesRequest, check_size
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import size_layout
from sizing.training.schedules.schedule import PipelineSchedule
from sizing.training.unlike_workers import (
    Grouping,
    StagePlacement,
    balanced_partition,
    global_staleness,
    groupings,
    wave_seconds,
)

SCHEDULE = "pipedream"
"""How a virtual worker runs: without flush, each minibatch with the weights that it began with."""


def plan_virtual_workers(request: StagesRequest, kinds: tuple[ResolvedKind, ...]) -> list[VirtualWorkers]:
    """Plan what each policy makes of the nodes, or say why it makes nothing."""
    scenario = request.scenario
    worker_gpus = scenario.parallelism.tensor * scenario.parallelism.context
    devices = [kind.num_gpus // worker_gpus for kind in kinds]
    try:
        alone = worker_scenario(scenario)
        costs = StageCosts(alone, kinds, headroom_fraction=request.headroom_fraction)
        planner = _WorkerPlanner(request, alone, costs)
        groups = groupings(devices, planner.speeds, stages=scenario.parallelism.pipeline)
        return [planner.plan(grouping) for grouping in groups]
    except InvalidInput as error:
        groups = groupings(devices, [0.0] * len(kinds), stages=scenario.parallelism.pipeline)
        return [_report_none(grouping.policy, str(error)) for grouping in groups]


def worker_scenario(scenario: Scenario) -> Scenario:
    """Return one virtual worker of a scenario: a replica with its share of the batch and an optimizer of its own.

    Raises InvalidInput where a replica alone breaks a rule.
    """
    data, batch = scenario.parallelism.data, scenario.training.global_batch_size
    fields = worker_training(scenario) | {
        "training.global_batch_size": None if batch is None else batch // data,
        "parallelism.data": 1,
        "cluster.num_gpus": None,
    }
    return scenario_from(with_fields(scenario.model_dump(mode="json", exclude_unset=True), fields))


def worker_training(scenario: Scenario) -> dict[str, JsonValue]:
    """Return the fields of training that make each replica a virtual worker."""
    whole: dict[str, JsonValue] = {"training.distributed_optimizer": False}
    return {"training.schedule": SCHEDULE} | (whole if has_distributed_optimizer(scenario.training) else {})


class _WorkerPlanner:
    """Layers on the virtual workers of a scenario, and what these then do in a wave."""

    def __init__(self, request: StagesRequest, scenario: Scenario, costs: StageCosts) -> None:
        self._costs, self._distance = costs, request.clock_distance
        self._stages, self._count = scenario.parallelism.pipeline, request.scenario.parallelism.data
        checkpoint_layout = size_layout(scenario.model_copy(update={"cluster": costs.kinds[0].alone})).checkpoint_layout
        self._drained_bytes = checkpoint_layout.size.written_bytes

    @property
    def speeds(self) -> list[float]:
        """Speed of each kind of node, by the time of a layer."""
        return [1.0 / self._costs.layer_seconds(kind) for kind in range(len(self._costs.kinds))]

    def plan(self, grouping: Grouping) -> VirtualWorkers:
        """Plan the workers of a policy."""
        if grouping.reason is not None:
            return _report_none(grouping.policy, grouping.reason)
        placements = []
        for workers in grouping.workers:
            check_size(workers.composition)
            layers = self._costs.num_layers
            partition = balanced_partition(self._costs.seconds, workers.composition, num_layers=layers)
            if partition is None:
                names = [kind.name for kind, n in zip(self._costs.kinds, workers.composition, strict=True) if n]
                return _report_none(grouping.policy, f"no split of the layers fits a worker of {' and '.join(names)}")
            placements.append((workers.number, partition[1]))
        return self._report_policy(grouping.policy, placements)

    def _report_policy(self, policy: str, workers: Sequence[tuple[int, tuple[StagePlacement, ...]]]) -> VirtualWorkers:
        minibatches = [max(self._costs.step(placements).stage_seconds) for _, placements in workers]
        waves = [
            wave_seconds(
                minibatch,
                max(self._costs.sync_seconds(stage, each) for stage, each in enumerate(placements)),
                stages=self._stages,
                clock_distance=self._distance,
            )
            for minibatch, (_, placements) in zip(minibatches, workers, strict=True)
        ]
        slowest, execution = max(waves), self._costs.execution
        tokens = self._stages * execution.micro_batch_size * execution.sequence_length
        kept = sum(count * self._count_version_bytes(placements) for count, placements in workers)
        return VirtualWorkers(
            policy=policy,
            reason=None,
            workers=[
                self._report_worker(count, placements, minibatch, wave, slowest)
                for (count, placements), minibatch, wave in zip(workers, minibatches, waves, strict=True)
            ],
            tokens_per_second=self._count * tokens / slowest,
            max_stale_minibatches=global_staleness(self._stages, self._distance),
            drained_bytes=self._drained_bytes,
            drain_seconds=(self._stages - 1) * max(minibatches),
            undrained_bytes=self._drained_bytes + round(kept),
        )

    def _count_version_bytes(self, placements: Sequence[StagePlacement]) -> float:
        """Count the bytes of weights that the minibatches in a worker's pipeline began with."""
        rules: PipelineSchedule = self._costs.execution.rules
        pipeline = self._costs.execution.pipeline
        return sum(
            rules.weight_versions(pipeline, stage) * self._costs.version_bytes(stage, each)
            for stage, each in enumerate(placements)
        )

    def _report_worker(
        self, count: int, placements: Sequence[StagePlacement], minibatch: float, wave: float, slowest: float
    ) -> VirtualWorker:
        needed = [
            self._costs.memory(stage, each.first, each.past).needed_bytes for stage, each in enumerate(placements)
        ]
        return VirtualWorker(
            count=count,
            kinds=[self._costs.kinds[each.kind].name for each in placements],
            layers_per_stage=[each.past - each.first for each in placements],
            minibatch_seconds=minibatch,
            wave_seconds=wave,
            waiting_fraction=1.0 - wave / slowest,
            max_gpu_bytes=max(needed),
        )


def _report_none(policy: str, reason: str) -> VirtualWorkers:
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
