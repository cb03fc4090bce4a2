"""How long a step takes: computation of the slowest stage, what it waits for, the bubble, gradients, optimizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sizing.cluster import ResolvedNode
from sizing.cluster.gpu import Gpu, gpu_catalog, gpu_named
from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.cells import Cell
from sizing.layout.sharding import Sharding
from sizing.layout.stages import StageSpan
from sizing.model.inventory import layers_between
from sizing.state import Training
from sizing.training.execution import Execution, loss_of, value_bytes
from sizing.training.kernels import kernels_of
from sizing.training.losses import LOSSES
from sizing.training.placement import OFFLOAD_RULES
from sizing.training.time.achieved import BLOCK_SCALED_OVER_BF16, FP8_OF_BF16, AchievedRates, achieved_rates
from sizing.training.time.exchange import exchange_seconds
from sizing.training.time.host_traffic import HostTraffic, host_rates, waited_seconds
from sizing.training.time.links import Links
from sizing.training.time.step import StepTime
from sizing.training.time.work import ModelWork, Work

BACKWARD_PRODUCTS = 2.0
"""Gradients of inputs and of weights, for each product of the forward pass: Narayanan et al. 2021, appendix."""
BACKWARD_ATTENTION = 2.5
"""Five products in place of two: Dao 2023, FlashAttention-2, arXiv 2307.08691, section 4.1."""
LISTED_SHARE = 0.5
"""Of matrix products, those that torchtitan's selective recomputation does again: every other one."""
TRAFFIC_OF_EAGER = 3.0
"""Times that values go through memory where no kernel fuses: a norm that casts to fp32 moves 36 bytes a value, a fused
one 4, sums 6 in both; silu and product 10 and 6."""
TRAFFIC_OF_LOSS = 3.0
"""Times that what a loss holds is moved: written, read, and as a gradient written."""
TRAFFIC_OF_OPTIMIZER = 2.0
"""A step reads and writes weights, moments and gradients."""


@dataclass(frozen=True, slots=True)
class _Gpu:
    """Rates of a GPU as achieved."""

    layer_flops: float
    expert_flops: float
    head_flops: float
    attention_flops: float
    memory_bytes_per_second: float
    peak_flops: float


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
    gpu, links = _gpu(training, node.spec.gpu, rates), _links(node, rates)
    stage = _Stage(work, training, parallelism, execution, gpu, links)
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
    stage: _Stage, computed: _Computed, traffic: HostTraffic | None, node: ResolvedNode
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


class _Passes(NamedTuple):
    """Seconds of one microbatch on a stage: computing, of it forward, and waiting."""

    compute: float
    forward: float
    waiting: float

    @property
    def seconds(self) -> float:
        return self.compute + self.waiting


@dataclass(frozen=True, slots=True)
class _Computed:
    """Seconds of a step on the slowest stage, without exchange and optimizer; in `passes` it computes or waits."""

    passes_seconds: float
    compute_seconds: float
    forward_seconds: float
    waiting_seconds: float
    bubble_seconds: float


def _computed(stage: _Stage, spans: Iterable[StageSpan]) -> _Computed:
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


def _both_ways(stages: Sequence[_Passes]) -> list[_Passes]:
    """Of a device that runs stages i and p - 1 - i: half of the microbatches through each."""
    half = list(zip(stages, reversed(stages), strict=True))[: len(stages) // 2]
    return [_Passes(*(sum(both) / 2 for both in zip(one, other, strict=True))) for one, other in half]


def _whole_step(stage: _Stage, computed: _Computed, *, exchange: float, optimizer: float, waited: float) -> StepTime:
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


def _gpu(training: Training, name: str, rates: AchievedRates) -> _Gpu:
    """In 8 and 4 bits the products of layers alone; in fp32 the tensor cores' TF32, half of bf16.

    Raises InvalidInput for a format of blocks that the GPU does not compute in.
    """
    gpu = gpu_named(name)
    peak = gpu.bf16_flops_per_second
    of_layers, share = peak, 1.0
    if training.precision == "fp8-mixed" and gpu.fp8_flops_per_second is not None:
        of_layers, share = gpu.fp8_flops_per_second, FP8_OF_BF16
    elif training.precision in BLOCK_SCALED_OVER_BF16:
        _check_block_scales(training, gpu)
        share = BLOCK_SCALED_OVER_BF16[training.precision]
    elif training.precision == "fp32":
        of_layers = peak = peak / 2
    return _Gpu(
        layer_flops=of_layers * share * rates.matrices,
        expert_flops=of_layers * share * rates.experts,
        head_flops=peak * rates.matrices,
        attention_flops=peak * rates.attention,
        memory_bytes_per_second=gpu.memory_bytes_per_second * rates.memory,
        peak_flops=gpu.bf16_flops_per_second,
    )


def _check_block_scales(training: Training, gpu: Gpu) -> None:
    if not gpu.has_block_scales:
        able = ", ".join(each.name for each in gpu_catalog().values() if each.has_block_scales)
        raise InvalidInput.of(
            "training.precision",
            f"must be one in which {gpu.name} computes; matrix products with a scale for each block need {able}",
            value=training.precision,
            remedy="take fp8-mixed or bf16-mixed, or other nodes",
        )


def _links(node: ResolvedNode, rates: AchievedRates) -> Links:
    gpu = gpu_named(node.spec.gpu or "")
    network = node.spec.compute_network_bytes_per_second
    return Links(
        gpus_per_node=node.spec.gpus_per_node,
        gpus_per_domain=node.spec.num_linked_gpus,
        link_bytes_per_second=gpu.link_bytes_per_second * rates.links,
        node_bytes_per_second=float("inf") if network is None else network * rates.network,
    )


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a GPU of a stage does with one microbatch."""

    work: ModelWork
    training: Training
    parallelism: Parallelism
    execution: Execution
    gpu: _Gpu
    links: Links

    @property
    def model_flops(self) -> float:
        """Operations of a token in a whole step: three times the forward pass, attention in full."""
        layers = self.work.between(len) + self.work.head
        pairs = 2.0 * layers.pairs * self.execution.sequence_length
        return (1.0 + BACKWARD_PRODUCTS) * (layers.matrices + layers.experts + pairs)

    def passes(self, span: StageSpan) -> _Passes:
        """Of one microbatch."""
        return _Passes(self.compute_seconds(span), self.forward_seconds(span), self.waiting_seconds(span))

    def compute_seconds(self, span: StageSpan) -> float:
        """Forward and backward pass of its layers, what is computed again, and on the last stage head and loss."""
        layers, tensor = self._layers(span), self.parallelism.tensor
        products, attention, memory = self._forward_parts(layers)
        forward = products + attention + memory
        backward = BACKWARD_PRODUCTS * (products + memory) + BACKWARD_ATTENTION * attention
        again = 0.0
        if self.execution.recomputation == "selective" and self.training.framework == "torchtitan":
            again = LISTED_SHARE * products + memory
        elif self.execution.recomputation == "full":
            again = sum(self._forward_parts(self._again(span)))
        per_token = (forward + backward + again) / tensor
        if span.has_head:
            per_token += self._head_seconds_per_token
        return self.execution.num_tokens * per_token

    def forward_seconds(self, span: StageSpan) -> float:
        """Of its layers alone."""
        return self.execution.num_tokens * sum(self._forward_parts(self._layers(span))) / self.parallelism.tensor

    def _forward_parts(self, layers: Work) -> tuple[float, float, float]:
        """Seconds of a token in matrix products, in attention, and in what memory bounds."""
        return (
            layers.matrices / self.gpu.layer_flops + layers.experts / self.gpu.expert_flops,
            layers.pairs * self.execution.sequence_length / self.gpu.attention_flops,
            layers.values * self._bytes_per_value / self.gpu.memory_bytes_per_second,
        )

    @property
    def _bytes_per_value(self) -> float:
        kernels = kernels_of(self.training)
        return value_bytes(self.training) * (TRAFFIC_OF_EAGER if kernels.fp32_norm_inputs else 1.0)

    @property
    def _head_seconds_per_token(self) -> float:
        work, tensor = self.work, self.parallelism.tensor
        products = (1.0 + BACKWARD_PRODUCTS) * work.head.matrices / tensor / self.gpu.head_flops
        held = LOSSES[loss_of(self.training)]
        per_logit = TRAFFIC_OF_LOSS * held.num_chunks * held.peak_bytes(value_bytes(self.training), tensor=tensor)
        logits = per_logit * work.vocabulary / tensor / self.gpu.memory_bytes_per_second
        return (1 + work.num_modules) * (products + logits)

    def waiting_seconds(self, span: StageSpan) -> float:
        """What computation does not hide of exchanges with other ranks of the replica."""
        layers = self._layers(span)
        return self._tensor(span) + self._context(layers) + self._expert(layers, span) + self._pipeline(span)

    def _layers(self, span: StageSpan) -> Work:
        return self.work.between(lambda layers: _num_layers(layers, span.chunks))

    def _again(self, span: StageSpan) -> Work:
        return self.work.between(lambda layers: _num_layers(layers, self._chunks_again(span)))

    def _chunks_again(self, span: StageSpan) -> tuple[range, ...]:
        return tuple(map(self.execution.again, span.chunks))

    def _sparse(self, chunks: tuple[range, ...]) -> int:
        return sum(_num_layers(layers, chunks) for layers, work in self.work.kinds if work.experts)

    def _tensor(self, span: StageSpan) -> float:
        """All-gathers and reduce-scatters around attention and around the feed-forward block.

        Two of each in the forward and in the backward pass, two more where gathered inputs are not kept, and again
        those of the forward pass with full recomputation; half of them where experts have no tensor ranks.
        Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2.
        """
        tensor, moved = self.parallelism.tensor, self._bytes_of(self.work.hidden)
        calls = 4.0 + 4.0 + (0.0 if kernels_of(self.training).keeps_gathered else 2.0)
        calls = calls * self._with_tensor_ranks(span.chunks) + 4.0 * self._with_tensor_ranks(self._chunks_again(span))
        return self.links.collective_seconds(moved, num_ranks=tensor, stride=1, num_calls=calls)

    def _with_tensor_ranks(self, chunks: tuple[range, ...]) -> float:
        """Layers that tensor ranks share; of those with experts of fewer such ranks half."""
        halved = self.parallelism.expert_tensor_degree < self.parallelism.tensor
        return sum(map(len, chunks)) - (self._sparse(chunks) / 2 if halved else 0)

    def _context(self, layers: Work) -> float:
        """Keys and values of the other context ranks, as far as attention does not take longer.

        Once forward, with their gradients twice backward. Source: Liu et al. 2023, Ring Attention, arXiv 2310.01889.
        """
        context, tensor = self.parallelism.context, self.parallelism.tensor
        moved = context * self._bytes_of(layers.key_values) / tensor
        seconds = self.links.collective_seconds(3.0 * moved, num_ranks=context, stride=tensor)
        pairs = layers.pairs * self.execution.sequence_length * self.execution.num_tokens / tensor
        return max(0.0, seconds - (1.0 + BACKWARD_ATTENTION) * pairs / self.gpu.attention_flops)

    def _expert(self, layers: Work, span: StageSpan) -> float:
        """Tokens to their experts and back, forward and backward. Source: Lepikhin et al. 2020, arXiv 2006.16668."""
        expert, tensor = self.parallelism.expert, self.parallelism.tensor
        sparse = self._sparse(span.chunks)
        if expert == 1 or not sparse:
            return 0.0
        each = self._bytes_of(layers.routed_values) / tensor / sparse
        calls = 4.0 * sparse + 2.0 * self._sparse(self._chunks_again(span))
        stride = self.parallelism.expert_tensor_degree
        return self.links.exchange_seconds(each, num_ranks=expert, stride=stride, num_calls=calls)

    def _pipeline(self, span: StageSpan) -> float:
        """Hidden states forward and gradients backward, for each chunk."""
        if self.execution.num_stages == 1:
            return 0.0
        stride = self.parallelism.num_gpus // self.execution.num_stages
        moved = self._bytes_of(self.work.hidden) / self.execution.num_sharing
        return 2 * len(span.chunks) * self.links.send_seconds(moved, stride=stride)

    def _bytes_of(self, values: float) -> float:
        return value_bytes(self.training) * self.execution.num_tokens * values


def _num_layers(layers: Sequence[int], chunks: Iterable[range]) -> int:
    return sum(len(layers_between(layers, chunk.start, chunk.stop)) for chunk in chunks)
