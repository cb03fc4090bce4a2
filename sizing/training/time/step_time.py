"""How long a step takes: computation of the slowest stage, what it waits for, the bubble, gradients, optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sizing.cluster import ResolvedNode
from sizing.layout import Parallelism
from sizing.layout.cells import Cell
from sizing.layout.sharding import Sharding
from sizing.layout.stages import StageSpan
from sizing.state import Training
from sizing.training.execution import Execution
from sizing.training.placement import OFFLOAD_RULES
from sizing.training.time.achieved import achieved_rates
from sizing.training.time.exchange import exchange_seconds
from sizing.training.time.gpu_rates import gpu_rates, links_of
from sizing.training.time.host_traffic import HostTraffic, host_rates, waited_seconds
from sizing.training.time.stage import Passes, Stage
from sizing.training.time.step import StepTime
from sizing.training.time.work import ModelWork

TRAFFIC_OF_OPTIMIZER = 2.0
"""A step reads and writes weights, moments and gradients."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes of the training state on the fullest GPU, of the gradient of one parameter, and of what is offloaded."""

    rank_bytes: float
    gradient_bytes: int
    traffic: HostTraffic | None = None


def step_time(
    work: ModelWork,
    training: Training,
    parallelism: Parallelism,
    *,
    execution: Execution,
    cells: Sequence[Cell],
    sharding: Sharding,
    node: ResolvedNode,
    state: StateBytes,
) -> StepTime | None:
    """Time of a step: m max_i T_i + b/(1 - b) m mean_i T_i + exchange + optimizer + offload.

    T_i: what stage i computes of a microbatch, forward and backward, and what it waits for; m microbatches; b
    is what the schedule idles of a step, (p - 1)/(v m + p - 1) with 1f1b, p stages of v chunks; offload: what
    the host makes it wait for (waited_seconds).
    None where the node names no GPU, no global batch says how many microbatches there are, or nobody says the rate of a
    link or of drives that state passes.
    Source: Narayanan et al. 2021, arXiv 2104.04473, section 2.2, for unequal stages; rates: achieved.toml.
    One layer of GPT on one GPU of 312 TFLOP/s, of which 72 % are achieved:

    >>> from sizing.report import answer
    >>> shape = {"family": "gpt2", "hidden_size": 4096, "num_layers": 1, "num_attention_heads": 32, "vocab_size": 256}
    >>> training = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 1}
    >>> model, cluster = {"architecture": shape | {"max_positions": 2048}}, {"node": "dgx-a100"}
    >>> step = answer({"model": model, "training": training, "cluster": cluster}).training.step
    >>> products = 6 * 2048 * (12 * 4096**2 + 4096 * 256) / (0.72 * 312e12)
    >>> attention = 3.5 * 2048 * 2048 * 2 * 4096 / (0.43 * 312e12)
    >>> 1.0 < step.compute_seconds / (products + attention) < 1.15
    True
    """
    if node.spec.gpu is None or execution.num_microbatches is None:
        return None
    rates = achieved_rates(training, node.spec.gpu, hides_exchange=sharding.gathers in ("layers", "modules"))
    gpu, links = gpu_rates(training, node.spec.gpu, rates), links_of(node, rates)
    stage = Stage(work, training, parallelism, execution, gpu, links)
    computed = _computed(stage, {cell.span.stages.start: cell.span for cell in cells}.values())
    exchange = exchange_seconds(
        training,
        parallelism,
        cells=cells,
        sharding=sharding,
        links=links,
        execution=execution,
        reduced=state.gradient_bytes,
    )
    hidden = rates.overlap * min(exchange, computed.compute_seconds)
    optimizer = TRAFFIC_OF_OPTIMIZER * state.rank_bytes / gpu.memory_bytes_per_second
    waited = _offload_seconds(stage, computed, state.traffic, node)
    if waited is None:
        return None
    return _whole_step(stage, computed, exchange=exchange - hidden, optimizer=optimizer, waited=waited)


def _offload_seconds(
    stage: Stage, computed: _Computed, traffic: HostTraffic | None, node: ResolvedNode
) -> float | None:
    """What the slowest stage waits for its host; None where a rate is unknown."""
    offload = stage.training.offload
    if offload is None or traffic is None:
        return 0.0
    rates = host_rates(offload, node, num_gpus=stage.parallelism.num_gpus)
    if rates is None:
        return None
    return waited_seconds(
        traffic,
        rates,
        forward_seconds=computed.forward_seconds,
        backward_seconds=computed.compute_seconds - computed.forward_seconds,
        overlaps_update=OFFLOAD_RULES[stage.training.framework].overlaps_update,
    )


@dataclass(frozen=True, slots=True)
class _Computed:
    """Seconds of a step on the slowest stage, without exchange and optimizer; in `passes` it computes or waits."""

    passes_seconds: float
    compute_seconds: float
    forward_seconds: float
    waiting_seconds: float
    bubble_seconds: float


def _computed(stage: Stage, spans: Iterable[StageSpan]) -> _Computed:
    """All microbatches of a step on the slowest stage, and the bubble, of which the mean stage decides."""
    execution = stage.execution
    microbatches, idle_fraction = execution.num_microbatches or 0, execution.bubble_fraction or 0.0
    passes = {span.stages: stage.passes(span) for span in spans}
    mean = sum(len(stages) * each.seconds for stages, each in passes.items()) / execution.num_stages
    found = list(passes.values())
    if execution.rules.is_two_way:
        found = _both_ways([each for stages, each in passes.items() for _ in stages])
    slowest = max(found, key=lambda each: each.seconds)
    return _Computed(
        passes_seconds=microbatches * slowest.seconds,
        compute_seconds=microbatches * slowest.compute,
        forward_seconds=microbatches * slowest.forward,
        waiting_seconds=microbatches * slowest.waiting,
        bubble_seconds=idle_fraction / (1 - idle_fraction) * microbatches * mean,
    )


def _both_ways(stages: Sequence[Passes]) -> list[Passes]:
    """Of a device that runs stages i and p - 1 - i: half of the microbatches through each."""
    half = list(zip(stages, reversed(stages), strict=True))[: len(stages) // 2]
    return [Passes(*(sum(both) / 2 for both in zip(one, other, strict=True))) for one, other in half]


def _whole_step(stage: Stage, computed: _Computed, *, exchange: float, optimizer: float, waited: float) -> StepTime:
    """The parts of a step together, in seconds, and what the GPUs train on in that time."""
    execution, num_gpus = stage.execution, stage.parallelism.num_gpus
    seconds = computed.passes_seconds + computed.bubble_seconds + exchange + optimizer + waited
    microbatches = (execution.num_microbatches or 0) * stage.parallelism.data
    tokens = microbatches * execution.micro_batch_size * execution.sequence_length
    return StepTime(
        seconds=seconds,
        tokens_per_second=tokens / seconds,
        tokens_per_second_per_gpu=tokens / seconds / num_gpus,
        mfu_fraction=tokens * stage.model_flops / (seconds * num_gpus * stage.gpu.peak_flops),
        compute_seconds=computed.compute_seconds,
        waiting_seconds=computed.waiting_seconds,
        bubble_seconds=computed.bubble_seconds,
        exchange_seconds=exchange,
        optimizer_seconds=optimizer,
        offload_seconds=waited,
    )
