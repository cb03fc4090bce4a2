"""Candidates of a layout search: which of them fit, and what each asks of the storage."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import Field

from sizing.cluster.cluster import Cluster, resolve_node
from sizing.errors import REQUIRED, InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.layout import Parallelism
from sizing.layout.degrees import SEARCHED_DEGREES, DegreeSearch
from sizing.layout.formats import CheckpointFormat, check_format, format_of
from sizing.layout.parallelism import nearest_divisors_text
from sizing.layout.sharding import has_distributed_optimizer
from sizing.layout.trained_model import trained_inventory
from sizing.model import ResolvedModel
from sizing.questions.layouts.objectives import default_objective, model_parallel_gpus, require_inputs
from sizing.questions.layouts.report import FoundLayout, MinMemory
from sizing.questions.layouts.request import (
    OBJECTIVES_OF_TIME,
    SEARCHED_MICRO_BATCHES,
    SEARCHED_VIRTUAL_STAGES,
    LayoutsRequest,
)
from sizing.run.evaluation import evaluate
from sizing.run.reduction_effect import stored_bytes
from sizing.scenario import Scenario
from sizing.sized_layout import on_measured_link, size_layout, with_rate_of_link
from sizing.state import Training
from sizing.state.offload import Offload
from sizing.state.training import Recomputation, Schedule
from sizing.strict_model import StrictModel
from sizing.training import GpuMemory
from sizing.training.execution import DEFAULT_RECOMPUTE_MODULES, recompute_modules_of
from sizing.training.memory_search import RECOMPUTATIONS, MemoryQuestion
from sizing.training.schedules import SCHEDULES, default_schedule
from sizing.units import counted_text

MAX_CANDIDATES = 20_000
"""Max candidates: about a minute of one core at 3 ms each, and 0.3 GB. DeepSeek-V3 on 491,520 GPUs has 13,214 with
seventeen context degrees."""

MAX_VARIED = 24
"""The best candidates by the time of a step: those that other microbatches and virtual stages are tried of."""

_SEARCHED_ZERO_STAGES = (1, 2, 3)
"""Stage 0 keeps the optimizer on every rank and fits nowhere where stage 1 does not."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Degrees to try, virtual stages among them where not the scenario's, and the size of a microbatch.

    `distributed_optimizer`: whether replicas divide the optimizer where the scenario leaves it open.
    """

    degrees: dict[str, Any]
    micro_batch_size: int | None
    distributed_optimizer: bool | None = None


@dataclass(frozen=True, slots=True)
class SizedCandidate:
    """A candidate that the scenario allows, and what it needs and takes before anything is asked of the storage."""

    candidate: Candidate
    parallelism: Parallelism
    training: Training
    memory: GpuMemory
    model_parallel_gpus: int

    @property
    def micro_batch_size(self) -> int | None:
        """Sequences of one forward pass."""
        return self.training.micro_batch_size

    @property
    def recomputation(self) -> Recomputation | None:
        """Recomputation of the backward pass."""
        return self.memory.recomputation

    @property
    def recomputation_text(self) -> str | None:
        """Recomputation of the backward pass, with the number of layers where not all are computed again."""
        layers = self.training.recomputed_layers
        return (
            self.recomputation if layers is None else f"{self.recomputation} of {counted_text(layers, 'layer')} a chunk"
        )

    @property
    def distributed_optimizer(self) -> bool | None:
        """Whether replicas divide the optimizer; None where the search did not choose it."""
        return self.candidate.distributed_optimizer

    @property
    def offload(self) -> Offload | None:
        """State and activations off the GPU, and the rates of their copies; None where nothing lies there."""
        return self.training.offload if self.training.moves_off_gpu else None

    @property
    def schedule(self) -> Schedule | None:
        """Schedule of the pipeline; None without one."""
        if self.parallelism.pipeline == 1:
            return None
        return self.training.schedule or default_schedule(num_chunks=self.parallelism.virtual_pipeline)

    @property
    def gpu_bytes(self) -> int:
        """Bytes that the fullest GPU needs."""
        return self.memory.needed_bytes

    @property
    def activation_bytes(self) -> int | None:
        """Bytes of activations on the fullest GPU."""
        return self.memory.activation_bytes

    @property
    def bubble_fraction(self) -> float | None:
        """Share of a step for which a stage idles."""
        return self.memory.bubble_fraction

    @property
    def step_seconds(self) -> float | None:
        """Time of a step; None where unknown."""
        return self.memory.step.seconds if self.memory.step else None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens per second of all GPUs while they train."""
        return self.memory.step.tokens_per_second if self.memory.step else None


@dataclass
class Tally:
    """Tally of the candidates: which fit, which do not, which are refused.

    `tight`: those that do not fit, with each recomputation that was tried. `emptied`: where nothing fits, the one that
    needs the min memory once all that its framework moves is off the GPU.
    """

    fitting: list[SizedCandidate] = field(default_factory=list)
    tight: list[SizedCandidate] = field(default_factory=list)
    lowest: MinMemory | None = None
    emptied: SizedCandidate | None = None
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


class Judgement(StrictModel):
    """What a candidate needs, or why the scenario does not allow it."""

    memories: list[GpuMemory] = Field(
        description="Memory of a GPU with one recomputation after another, until one fits. Empty where refused."
    )
    refusal: str = Field("", description="Why the scenario does not allow the candidate.")


class Search:
    """Search over the candidates of a request, and what each of them needs.

    Raises InvalidInput, with paths inside the scenario, where that leaves open what the search needs.
    """

    def __init__(self, request: LayoutsRequest) -> None:
        scenario = with_rate_of_link(request.scenario)
        self.objective = request.objective or default_objective(scenario)
        require_inputs(self.objective, scenario)
        node = resolve_node(scenario.cluster)
        saved_as = format_of(scenario.checkpoint.format, scenario.training.framework)
        check_format(
            saved_as,
            scenario.training,
            Parallelism(zero_stage=scenario.parallelism.zero_stage),
            mode=scenario.checkpoint.mode,
            files_per_rank=scenario.checkpoint.files_per_rank,
            optimizer_sharding=scenario.checkpoint.optimizer_sharding,
        )
        self.scenario = scenario
        self.offload_rates = on_measured_link(scenario.training.offload or Offload(), scenario)
        has_time = self.objective in OBJECTIVES_OF_TIME
        self._micro_batches = _list_micro_batches(request, has_time=has_time)
        self._divides_optimizer = (
            has_time
            and scenario.training.distributed_optimizer is None
            and "distributed_optimizer" in saved_as.takes
            and not has_distributed_optimizer(scenario.training)
        )
        self._virtual_pipelines = _list_virtual_pipelines(request, saved_as, has_time=has_time)
        self.num_gpus, self.gpu_memory_bytes = _require_gpus(scenario.cluster)
        self.room_bytes = int(self.gpu_memory_bytes * (1 - request.headroom_fraction))
        self.question = MemoryQuestion(scenario.model, scenario.training, saved_as=saved_as, node=node)
        if self._divides_optimizer:
            self.question = self.question.with_distributed_optimizer()
        model = self.question.model(tensor=1)
        trained_inventory(model.inventory, scenario.training)
        given_stage = scenario.parallelism.zero_stage
        zero_stages = _SEARCHED_ZERO_STAGES if given_stage is None else (given_stage,)
        self.degrees = DegreeSearch(
            model=model,
            training=scenario.training,
            saved_as=saved_as,
            given=scenario.parallelism,
            num_gpus=self.num_gpus,
            num_linked_gpus=node.spec.num_linked_gpus,
            kept=[name for name in SEARCHED_DEGREES if name in request.kept_degrees],
            contexts=sorted(set(request.contexts or (scenario.parallelism.context,))),
            zero_stages=zero_stages if "zero_stage" in saved_as.takes else (),
            shard_groups="shard_group" not in request.kept_degrees,
            expert_tensors=_list_expert_tensors(request, saved_as, model, has_time=has_time),
            even_stages=request.even_stages,
        )

    @property
    def shards_over_data(self) -> bool:
        """Whether data ranks share the tensors, as in FSDP, so that layouts without other cuts come first."""
        return "shard_group" in self.question.saved_as.takes

    def list_candidates(self) -> list[Candidate]:
        """List degrees that multiply to the GPUs, with the smallest microbatch and number of virtual stages to try.

        Raises InvalidInput where there are more than 20,000, or none with the degrees that are kept.
        """
        cuts = self.degrees.combinations()
        first, divided = self._micro_batches[0], True if self._divides_optimizer else None
        every = (Candidate(cut | self._fewest_chunks(cut["pipeline"]), first, divided) for cut in cuts)
        candidates = list(itertools.islice(every, MAX_CANDIDATES + 1))
        if len(candidates) > MAX_CANDIDATES:
            raise InvalidInput.of(
                "the search",
                f"must have at most {MAX_CANDIDATES:,} candidates",
                value=f"{MAX_CANDIDATES + 1:,} or more",
                remedy="give fewer contexts, even_stages, or a num_gpus with fewer divisors",
            )
        if not candidates and self.degrees.kept:
            given = self.scenario.parallelism
            kept = {name: getattr(given, name) for name in self.degrees.kept}
            others = given.model_parallel_size * given.context
            remedy = "change it or a degree"
            if given.expert > 1 and self.num_gpus % others == 0:
                shared = math.gcd(self.question.model(tensor=1).num_experts or 1, self.num_gpus // others)
                remedy = f"change it, or expert: {nearest_divisors_text(shared, given.expert)}"
            raise InvalidInput.of(
                "cluster.num_gpus",
                f"must be a multiple of {' x '.join(f'{name} {degree}' for name, degree in kept.items())}",
                value=self.num_gpus,
                remedy=remedy,
            )
        return candidates

    def list_variants(self, tally: Tally) -> Iterator[Candidate]:
        """List the best of the candidates so far with the other microbatches and virtual stages."""
        if len(self._micro_batches) == 1 and self._virtual_pipelines is None:
            return
        best: dict[int, Candidate] = {}
        for each in sorted(
            tally.fitting + tally.tight, key=lambda sized_candidate: sized_candidate.step_seconds or math.inf
        ):
            best.setdefault(id(each.candidate), each.candidate)
        for candidate in list(best.values())[:MAX_VARIED]:
            for chunks in self._chunks(candidate.degrees["pipeline"]):
                for micro_batch_size in self._micro_batches:
                    varied = replace(candidate, degrees=candidate.degrees | chunks, micro_batch_size=micro_batch_size)
                    if varied != candidate:
                        yield varied

    def _fewest_chunks(self, pipeline: int) -> dict[str, Any]:
        """Find the first of `_chunks`; where there is none, take what the scenario will refuse."""
        virtual = {} if self._virtual_pipelines is None else {"virtual_pipeline": self._virtual_pipelines[0]}
        return next(self._chunks(pipeline), virtual)

    def _chunks(self, pipeline: int) -> Iterator[dict[str, Any]]:
        """List virtual stages of equal chunks; embedding and head count as layers where layers alone do not divide."""
        if self._virtual_pipelines is None:
            yield {}
            return
        num_layers = self.question.model(tensor=1).num_layers
        given = self.scenario.parallelism
        ends = bool(given.embedding_counts_as_layer) + bool(given.loss_counts_as_layer)
        for virtual in self._virtual_pipelines:
            if virtual == 1:
                yield {"virtual_pipeline": 1}
            elif pipeline > 1 and (num_layers + ends) % (pipeline * virtual) == 0:
                yield {"virtual_pipeline": virtual}
            elif pipeline > 1 and (num_layers + 2) % (pipeline * virtual) == 0:
                both = {"embedding_counts_as_layer": True, "loss_counts_as_layer": True}
                yield {"virtual_pipeline": virtual} | both

    def judge(self, candidate: Candidate) -> Judgement:
        """Judge whether a candidate is allowed, and what it needs."""
        try:
            parallelism, training = self._complete(candidate)
            tried = self.question.try_each(
                parallelism,
                room_bytes=self.room_bytes,
                recomputations=_list_recomputations(self.scenario),
                training=training,
            )
            return Judgement(memories=list(tried))
        except InvalidInput as error:
            return Judgement(memories=[], refusal=str(error))

    def count(self, candidate: Candidate, judgement: Judgement, tally: Tally) -> SizedCandidate | None:
        """Put a candidate in the tally; return it where it fits."""
        if not judgement.memories:
            tally.refuse(judgement.refusal)
            return None
        parallelism, training = self._complete(candidate)
        gpus = model_parallel_gpus(parallelism, shard_group=self.question.sharding(parallelism).shard_group)
        tried = [
            SizedCandidate(
                candidate,
                parallelism,
                training.model_copy(update={"recomputation": memory.recomputation or training.recomputation}),
                memory,
                gpus,
            )
            for memory in judgement.memories
        ]
        tally.weigh(parallelism, judgement.memories[-1])
        fits = tried[-1].gpu_bytes <= self.room_bytes
        tally.tight += tried[:-1] if fits else tried
        if not fits:
            tally.num_too_large += 1
            return None
        tally.fitting.append(tried[-1])
        return tried[-1]

    def _complete(self, candidate: Candidate) -> tuple[Parallelism, Training]:
        """Complete the degrees and the training of a candidate. Raises InvalidInput where the scenario refuses them."""
        parallelism = self.degrees.fitting(candidate.degrees)
        changed: dict[str, Any] = {"micro_batch_size": candidate.micro_batch_size}
        if candidate.distributed_optimizer is not None and max(parallelism.replicas) > 1:
            changed["distributed_optimizer"] = candidate.distributed_optimizer
        return parallelism, self.scenario.training.model_copy(update=changed)

    def report_layout(self, sized_candidate: SizedCandidate) -> FoundLayout:
        """Report the figures that `answer` gives, without its guesses, each of which has layouts of its own."""
        parallelism, memory = sized_candidate.parallelism, sized_candidate.memory
        scenario = self.scenario.model_copy(update={"parallelism": parallelism, "training": sized_candidate.training})
        layout = size_layout(scenario)
        run, checkpoint_layout = evaluate(layout.workload, scenario.run_inputs).report, layout.checkpoint_layout
        step, useful = memory.step, run.shares.useful_fraction
        return FoundLayout(
            parallelism=parallelism,
            recomputation=memory.recomputation,
            recomputed_layers=sized_candidate.training.recomputed_layers,
            schedule=sized_candidate.schedule,
            offload=sized_candidate.offload,
            distributed_optimizer=sized_candidate.training.distributed_optimizer
            if sized_candidate.distributed_optimizer
            else None,
            micro_batch_size=sized_candidate.micro_batch_size,
            step_seconds=step.seconds if step else None,
            tokens_per_second=step.tokens_per_second if step else None,
            mfu_fraction=step.mfu_fraction if step else None,
            effective_tokens_per_second=step.tokens_per_second * useful if step and useful is not None else None,
            headroom_bytes=self.gpu_memory_bytes - memory.needed_bytes,
            model_parallel_gpus=sized_candidate.model_parallel_gpus,
            gpu_bytes=layout.memory.needed_bytes,
            gpu_state_bytes=layout.memory.gpu_state_bytes,
            activation_bytes=layout.memory.activation_bytes,
            bubble_fraction=layout.memory.bubble_fraction,
            num_writers=checkpoint_layout.on_nodes.num_writers,
            num_writing_nodes=checkpoint_layout.on_nodes.num_writing_nodes,
            total_bytes=checkpoint_layout.size.total_bytes,
            stored_bytes=stored_bytes(checkpoint_layout.size.written_bytes, run.reduction),
            max_rank_bytes=checkpoint_layout.on_nodes.max_rank_bytes,
            write_seconds=run.write.seconds if run.write else None,
            stall_seconds=run.write.stall_seconds if run.write else None,
            restore_seconds=run.restore.seconds,
            required_write_bytes_per_second=run.required.write_bytes_per_second,
        )


def scenario_with(scenario: Scenario, parallelism: Parallelism, recomputation: Recomputation | None) -> Scenario:
    """Copy the scenario with the degrees and the recomputation of a layout."""
    training = scenario.training
    if recomputation is not None:
        training = training.model_copy(update={"recomputation": recomputation})
    return scenario.model_copy(update={"parallelism": parallelism, "training": training})


def _require_gpus(cluster: Cluster) -> tuple[int, int]:
    """Require the number of GPUs and the bytes of memory of each, and return both.

    Raises InvalidInput where one is not given.
    """
    num_gpus, gpu_memory_bytes = cluster.num_gpus, resolve_node(cluster).spec.gpu_memory_bytes
    if num_gpus is None:
        raise InvalidInput.of("cluster.num_gpus", REQUIRED, value=None, remedy="give the GPUs to lay out on")
    if gpu_memory_bytes is None:
        field, remedy = "cluster.node_spec.gpu_memory_bytes", "give the memory of one GPU"
        raise InvalidInput.of(field, REQUIRED, value=None, remedy=remedy)
    return num_gpus, gpu_memory_bytes


def require_searchable(request: LayoutsRequest) -> None:
    """Raise InvalidInput where the scenario leaves open what a search needs, without any work of the search."""
    scenario = with_rate_of_link(request.scenario)
    require_inputs(request.objective or default_objective(scenario), scenario)
    _require_gpus(scenario.cluster)


def _list_recomputations(scenario: Scenario) -> Sequence[Recomputation]:
    """List recomputations that differ: selective keeps as much as none where there is nothing that it selects."""
    given = scenario.training.recomputation
    if scenario.training.micro_batch_size is None:
        return RECOMPUTATIONS[:1]
    if given is not None:
        return (given,)
    modules = recompute_modules_of(scenario.training)
    selects = FRAMEWORKS[scenario.training.framework].lists_operations or modules != DEFAULT_RECOMPUTE_MODULES
    is_same = scenario.training.attention != "eager" and not selects
    return [each for each in RECOMPUTATIONS if not is_same or each != "selective"]


def _list_micro_batches(request: LayoutsRequest, *, has_time: bool) -> Sequence[int | None]:
    given = request.scenario.training.micro_batch_size
    if given is None:
        return (None,)
    if request.micro_batches is not None:
        return sorted(set(request.micro_batches))
    return sorted({*SEARCHED_MICRO_BATCHES, given}) if has_time else (given,)


def _list_virtual_pipelines(
    request: LayoutsRequest, saved_as: CheckpointFormat, *, has_time: bool
) -> Sequence[int] | None:
    """List virtual stages that the schedule runs, if one is named and runs any; None where the scenario's stay."""
    given, schedule = request.scenario.parallelism.virtual_pipeline, request.scenario.training.schedule
    if "virtual_pipeline" not in saved_as.takes or (request.virtual_pipelines is None and not has_time):
        return None
    wanted = sorted(set(request.virtual_pipelines or (*SEARCHED_VIRTUAL_STAGES, given)))
    return [each for each in wanted if schedule is None or SCHEDULES[schedule].runs_chunks(each)] or wanted


def _list_expert_tensors(
    request: LayoutsRequest, saved_as: CheckpointFormat, model: ResolvedModel, *, has_time: bool
) -> Sequence[int | None]:
    """List expert-tensor degrees: empty where the scenario's stays; None is the tensor degree."""
    given = request.scenario.parallelism.expert_tensor
    if not model.num_experts or "expert_tensor" not in saved_as.takes:
        return ()
    if request.expert_tensors is not None:
        return sorted(set(request.expert_tensors))
    return (None, 1) if has_time and given is None else ()
