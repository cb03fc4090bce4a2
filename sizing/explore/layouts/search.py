"""The candidates of a layout search: which of them fit, and what each asks of the storage."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from sizing.cluster.cluster import resolve_node
from sizing.errors import InvalidInput
from sizing.explore.layouts.layouts_report import FoundLayout, MinMemory
from sizing.explore.layouts.layouts_request import LayoutsRequest
from sizing.explore.layouts.objectives import model_parallel_gpus, require_inputs
from sizing.layout import Parallelism
from sizing.layout.degrees import DegreeSearch
from sizing.layout.formats import CheckpointFormat, check_format, format_of
from sizing.layout.layout import trained_inventory
from sizing.report import answer
from sizing.scenario import Scenario
from sizing.state.training import Recomputation
from sizing.training import GpuMemory
from sizing.training.memory_question import RECOMPUTATIONS, MemoryQuestion

MOST_CANDIDATES = 5_000
"""Some milliseconds each: the search ends within the half minute that a service gives a question."""

_SEARCHED_ZERO_STAGES = (1, 2, 3)
"""Stage 0 keeps the optimizer on every rank and fits nowhere where stage 1 does not."""


@dataclass
class Tally:
    """What became of the candidates."""

    fitting: list[FoundLayout] = field(default_factory=list)
    lowest: MinMemory | None = None
    num_refused: int = 0
    num_too_large: int = 0
    refusal: str = ""

    def refuse(self, reason: str) -> None:
        """Count a candidate that the scenario does not allow; the first reason is kept."""
        self.num_refused += 1
        self.refusal = self.refusal or reason

    def weigh(self, parallelism: Parallelism, memory: GpuMemory) -> None:
        """Keep the candidate that needs the min memory."""
        if self.lowest is None or memory.needed_bytes < self.lowest.gpu_bytes:
            self.lowest = MinMemory(
                parallelism=parallelism, recomputation=memory.recomputation, gpu_bytes=memory.needed_bytes
            )


class Search:
    """The candidates of a request, and what each of them needs.

    Raises InvalidInput, with paths inside the scenario, where that leaves open what the search needs.
    """

    def __init__(self, request: LayoutsRequest) -> None:
        scenario = request.scenario
        require_inputs(request.objective, scenario)
        node = resolve_node(scenario.cluster)
        saved_as = format_of(scenario.checkpoint.format, scenario.training.framework)
        check_format(
            saved_as,
            scenario.training,
            Parallelism(zero_stage=scenario.parallelism.zero_stage),
            mode=scenario.checkpoint.mode,
            files_per_rank=scenario.checkpoint.files_per_rank,
        )
        self.scenario = scenario
        self.num_gpus = _required(scenario.cluster.num_gpus, "cluster.num_gpus", "the GPUs to lay out on")
        self.gpu_memory_bytes = _required(
            node.spec.gpu_memory_bytes, "cluster.node_spec.gpu_memory_bytes", "the memory of one GPU"
        )
        self.room_bytes = int(self.gpu_memory_bytes * (1 - request.headroom_fraction))
        self.question = MemoryQuestion(scenario.model, scenario.training, saved_as=saved_as, node=node)
        model = self.question.model(tensor=1)
        trained_inventory(model.inventory, scenario.training)
        self.degrees = DegreeSearch(
            model=model,
            training=scenario.training,
            saved_as=saved_as,
            given=scenario.parallelism,
            num_gpus=self.num_gpus,
            gpus_per_node=node.spec.gpus_per_node,
            kept=request.kept_degrees,
            contexts=sorted(set(request.contexts or (scenario.parallelism.context,))),
            zero_stages=_zero_stages(scenario, saved_as),
            shard_groups=True,
            even_stages=request.even_stages,
        )

    def candidates(self) -> list[dict[str, int]]:
        """Degrees that multiply to the GPUs.

        Raises InvalidInput where there are more than 5,000.
        """
        found = list(itertools.islice(self.degrees.combinations(), MOST_CANDIDATES + 1))
        if len(found) > MOST_CANDIDATES:
            raise InvalidInput.of(
                "the search",
                f"must have at most {MOST_CANDIDATES:,} candidates",
                value=f"{MOST_CANDIDATES + 1:,} or more",
                remedy="give fewer contexts, even_stages, or a num_gpus with fewer divisors",
            )
        return found

    def look_at(self, degrees: dict[str, int], tally: Tally) -> None:
        """Judge a candidate."""
        try:
            parallelism = self.degrees.fitting(degrees)
            memory = self.question.memory(
                parallelism, room_bytes=self.room_bytes, recomputations=_recomputations(self.scenario)
            )
            if memory.needed_bytes > self.room_bytes:
                tally.num_too_large += 1
            else:
                tally.fitting.append(self._found(parallelism, memory))
            tally.weigh(parallelism, memory)
        except InvalidInput as error:
            tally.refuse(str(error))

    def _found(self, parallelism: Parallelism, memory: GpuMemory) -> FoundLayout:
        report = answer(scenario_with(self.scenario, parallelism, memory.recomputation))
        write = report.write
        return FoundLayout(
            parallelism=parallelism,
            recomputation=memory.recomputation,
            model_parallel_gpus=model_parallel_gpus(
                parallelism, shard_group=self.question.sharding(parallelism).shard_group
            ),
            gpu_bytes=report.training.needed_bytes,
            gpu_state_bytes=report.training.gpu_state_bytes,
            activation_bytes=report.training.activation_bytes,
            bubble_fraction=report.training.bubble_fraction,
            num_writers=report.layout.num_writers,
            num_writing_nodes=report.layout.num_writing_nodes,
            total_bytes=report.checkpoint.total_bytes,
            max_rank_bytes=report.layout.max_rank_bytes,
            write_seconds=write.seconds if write else None,
            stall_seconds=write.stall_seconds if write else None,
            restore_seconds=report.restore.seconds,
            required_write_bytes_per_second=report.required.write_bytes_per_second,
        )


def scenario_with(scenario: Scenario, parallelism: Parallelism, recomputation: Recomputation | None) -> Scenario:
    """The scenario in a found layout."""
    training = scenario.training
    if recomputation is not None:
        training = training.model_copy(update={"recomputation": recomputation})
    return scenario.model_copy(update={"parallelism": parallelism, "training": training})


def _required(value: int | None, path: str, what: str) -> int:
    if value is None:
        raise InvalidInput.of(path, "is required", value=None, remedy=f"give {what}")
    return value


def _zero_stages(scenario: Scenario, saved_as: CheckpointFormat) -> Sequence[int]:
    if "zero_stage" not in saved_as.takes:
        return ()
    given = scenario.parallelism.zero_stage
    return _SEARCHED_ZERO_STAGES if given is None else (given,)


def _recomputations(scenario: Scenario) -> Sequence[Recomputation]:
    given = scenario.training.recomputation
    if scenario.training.micro_batch_size is None:
        return RECOMPUTATIONS[:1]
    return RECOMPUTATIONS if given is None else (given,)
