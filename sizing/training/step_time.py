"""Time of a step: passes of each stage, what they wait for, exchange of gradients, optimizer, offload."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from pydantic import Field

from sizing.cluster import ResolvedNode
from sizing.frameworks import FRAMEWORKS
from sizing.layout import Parallelism
from sizing.layout.holders import HolderClass
from sizing.layout.sharding import Sharding
from sizing.layout.stages import StageSpan, num_layers_in
from sizing.state import Training
from sizing.strict_model import StrictModel
from sizing.training.execution import Execution, loss_of, recompute_modules_of, value_bytes
from sizing.training.gpu_rates import GpuRates, achieved_rates, gpu_rates, guessed_fraction
from sizing.training.kernels import LOSSES, cached_bytes, kernels_of
from sizing.training.layer_work import CAUSAL, OF_A_NORM, OF_A_SUM, ModelWork, Work
from sizing.training.links import (
    HostTraffic,
    Links,
    ReplicaExchange,
    exchange_of_replicas,
    guessed_network,
    host_rates,
    waited_seconds,
)
from sizing.training.overlaps import Overlaps
from sizing.training.schedules.passes import PassKind, Slot
from sizing.training.step_errors import StepFacts, step_errors


class StepTime(StrictModel):
    """How long a step of training takes, part by part, on the slowest stage."""

    seconds: float = Field(
        description="Seconds from one step of the optimizer to the next. In RL those of the policy alone: its critic, "
        "which takes a step of its own, and the generation of text are not counted."
    )
    seconds_low: float = Field(
        description="Seconds at the lower end of the range in which nine of ten measured runs like this lay. Those are "
        "on this GPU, with or without experts, else on all GPUs; all runs where something was never measured. Where "
        "training.achieved.matrices is a guess for this GPU, its range, which the assumptions say, counts besides."
    )
    seconds_high: float = Field(description="Seconds at the upper end of that range.")
    not_compared: tuple[str, ...] = Field(
        (), description="What of this step no measured run had, in words, so that its range is that of all runs."
    )
    tokens_per_second: float = Field(description="Tokens that all GPUs together train on per second.")
    tokens_per_second_per_gpu: float = Field(
        description="Tokens per second of a whole run over its GPUs: what one of them trains on."
    )
    mfu_fraction: float = Field(
        description="Fraction of the GPUs' peak in bf16 that the model's operations take, known as MFU. They are 6 per "
        "active parameter and token and attention in full, twice the pairs of tokens that a causal mask or a window "
        "leaves, without what is computed again."
    )
    compute_seconds: float = Field(description="Seconds in which the slowest stage computes, microbatch by microbatch.")
    waiting_seconds: float = Field(
        description="Seconds in which it waits for tensor, context, expert and pipeline ranks."
    )
    bubble_seconds: float = Field(description="Seconds for which it idles while the pipeline fills and drains.")
    exchange_seconds: float = Field(
        description="Seconds of exchanging gradients and weights with data-parallel ranks, without what computation "
        "hides, and with what computation takes longer meanwhile."
    )
    optimizer_seconds: float = Field(
        description="Seconds in which the optimizer updates weights and moments on the GPU, after the last gradients."
    )
    offload_seconds: float = Field(
        0.0,
        description="Seconds for which the step waits for what training.offload moves over the GPU's link and updates "
        "on the host, without what computation hides. 0 without offload.",
    )


BACKWARD_PRODUCTS = 2.0
"""Gradients of inputs and of weights, for each product of the forward pass: Narayanan et al. 2021, appendix."""
BACKWARD_ATTENTION = 2.5
"""Five products in place of two: Dao 2023, FlashAttention-2, arXiv 2307.08691, section 4.1."""
LISTED_SHARE = 0.5
"""Share of matrix products that torchtitan's selective recomputation does again: every other one."""
TRAFFIC_OF_EAGER = 3.0
"""Times that values go through memory where no kernel fuses: a norm that casts to fp32 moves 36 bytes a value, a fused
one 4, sums 6 in both; silu and product 10 and 6."""
TRAFFIC_OF_SCORES = 4.0
"""Times that eager attention moves each score: the product writes it, softmax reads and writes it, the next product
reads it. It computes the scores of all pairs, also those that are masked."""
TRAFFIC_OF_LOSS = 3.0
"""Times that what a loss holds is moved: written, read, and as a gradient written."""


@dataclass(frozen=True, slots=True)
class ChunkSeconds:
    """Seconds of one microbatch in one chunk of a stage.

    Computing of the forward pass, of the gradients of inputs with what is computed again, and of those of weights; what
    the forward and the backward pass wait for; and their exchanges with expert ranks, which a pair of passes may hide.
    """

    forward: float = 0.0
    input_gradient: float = 0.0
    weight_gradient: float = 0.0
    forward_waiting: float = 0.0
    backward_waiting: float = 0.0
    forward_exchange: float = 0.0
    backward_exchange: float = 0.0

    def __add__(self, other: ChunkSeconds) -> ChunkSeconds:
        """Return the seconds of two chunks, one after the other."""
        return ChunkSeconds(*map(operator.add, _seconds_of(self), _seconds_of(other)))

    def slowed(self, fraction: float, *, waiting: float = 0.0) -> ChunkSeconds:
        """Return the seconds where computing achieves this fraction of the rate, and both passes wait longer."""
        return replace(
            self,
            forward=self.forward / fraction,
            input_gradient=self.input_gradient / fraction,
            weight_gradient=self.weight_gradient / fraction,
            forward_waiting=self.forward_waiting + waiting / 2,
            backward_waiting=self.backward_waiting + waiting / 2,
        )

    @property
    def backward(self) -> float:
        """Computing of the backward pass."""
        return self.input_gradient + self.weight_gradient

    @property
    def compute(self) -> float:
        """Computing of both passes."""
        return self.forward + self.backward

    @property
    def waiting(self) -> float:
        """Waiting of both passes, where none hides the exchange of the other."""
        return self.forward_waiting + self.backward_waiting + self.forward_exchange + self.backward_exchange

    @property
    def seconds(self) -> float:
        """Seconds of a microbatch: computing and waiting."""
        return self.compute + self.waiting

    def of_pass(self, kind: PassKind) -> tuple[float, float, float]:
        """Return what a pass computes, waits for, and exchanges with expert ranks."""
        match kind:
            case PassKind.FORWARD:
                return self.forward, self.forward_waiting, self.forward_exchange
            case PassKind.BACKWARD:
                return self.backward, self.backward_waiting, self.backward_exchange
            case PassKind.INPUT_GRADIENT:
                return self.input_gradient, self.backward_waiting, self.backward_exchange
            case PassKind.WEIGHT_GRADIENT:
                return self.weight_gradient, 0.0, 0.0


_seconds_of = operator.attrgetter(*(each.name for each in fields(ChunkSeconds)))


@dataclass(frozen=True, slots=True)
class Stage:
    """Stage of a pipeline, as a GPU of it computes one microbatch."""

    work: ModelWork
    training: Training
    parallelism: Parallelism
    execution: Execution
    gpu: GpuRates
    links: Links
    overlaps: Overlaps

    @classmethod
    def of(
        cls,
        work: ModelWork,
        training: Training,
        parallelism: Parallelism,
        *,
        execution: Execution,
        sharding: Sharding,
        node: ResolvedNode,
    ) -> Stage:
        """Return a stage on a node, whose GPU must be named."""
        gpu = node.spec.gpu or ""
        rates = achieved_rates(training, gpu)
        overlaps = Overlaps.of(training, execution.schedule, sharding.gathers)
        links = Links.of(node, rates, num_gpus=parallelism.num_gpus)
        return cls(work, training, parallelism, execution, gpu_rates(training, gpu, rates), links, overlaps)

    @property
    def model_flops(self) -> float:
        """Operations of a token in a whole step: three times the forward pass, with attention in full.

        In full: twice the pairs that a causal mask or a window leaves, as Narayanan et al. 2021, arXiv 2104.04473,
        appendix, counts s^2. Frozen weights have no gradients of weights, which are a third of it.
        """
        layers, trained = self.work.between(len), self.work.trained
        pairs = self.work.attention_flops(layers, self.execution.sequence_length) / CAUSAL
        of_weights = trained.matrices * layers.matrices + trained.experts * layers.experts
        whole = layers.matrices + layers.experts + self.work.head.matrices
        return BACKWARD_PRODUCTS * (whole + pairs) + of_weights + trained.head * self.work.head.matrices + pairs

    def chunks(self, span: StageSpan) -> tuple[ChunkSeconds, ...]:
        """Return the times of one microbatch in each chunk of a stage of the span; the last has the head."""
        last = len(span.chunks) - 1
        return tuple(
            self._chunk(chunk, has_head=span.has_head and number == last) for number, chunk in enumerate(span.chunks)
        )

    def _chunk(self, chunk: range, *, has_head: bool) -> ChunkSeconds:
        """Time both passes through the layers of a chunk, recomputation, and on the last stage the head."""
        tokens, tensor = self.execution.num_tokens / self.parallelism.tensor, self.parallelism.tensor
        layers = self.work.between(lambda layers: num_layers_in((chunk,), layers))
        products, attention, memory = (tokens * each for each in self._forward_parts(layers))
        again = self._chunks_again((chunk,))
        recomputed = tokens * sum(self._forward_parts(self.work.between(lambda layers: num_layers_in(again, layers))))
        if self.execution.recomputation == "selective":
            recomputed = self._selective_seconds(layers, products=products, attention=attention, memory=memory)
        of_head, of_loss = self._head_seconds() if has_head else (0.0, 0.0)
        forward = products + attention + memory + of_head + of_loss / 2
        input_gradient = products + BACKWARD_ATTENTION * attention + 2.0 * memory + of_head + of_loss / 2 + recomputed
        trained = self.work.trained
        of_weights = Work(matrices=trained.matrices * layers.matrices, experts=trained.experts * layers.experts)
        weight_products = (BACKWARD_PRODUCTS - 1.0) * tokens * self._forward_parts(of_weights)[0]
        weight_gradient = weight_products + trained.head * of_head

        tensor_calls = 4.0 * self._num_divided((chunk,))
        is_gathered_again = self.execution.num_sharing > 1 and not kernels_of(self.training).keeps_gathered
        gathered = 2.0 * self._num_divided((chunk,)) * is_gathered_again
        back_calls = tensor_calls + gathered + 4.0 * self._num_divided(again)
        collective = self.links.collective_seconds(self._bytes_of(self.work.hidden), num_ranks=tensor, stride=1)
        waits = {"forward": tensor_calls * collective, "backward": back_calls * collective}
        computed = {"forward": forward, "backward": input_gradient + weight_gradient}
        beside = {"forward": products, "backward": products + weight_products}
        attended = {"forward": attention, "backward": BACKWARD_ATTENTION * attention}
        keys = self._context_seconds(layers)
        tokens_sent = self._expert_seconds(layers, chunk)
        exchanged = {
            "forward": 2.0 * self._num_sparse((chunk,)) * tokens_sent,
            "backward": 2.0 * (self._num_sparse((chunk,)) + self._num_sparse(again)) * tokens_sent,
        }
        for way, share in (("forward", 1 / 3), ("backward", 2 / 3)):
            hidden = self._hidden_seconds(waits[way], beside[way], fraction=self.overlaps.tensor)
            waits[way] -= hidden
            of_context = self._hidden_seconds(keys * share, attended[way], fraction=self.overlaps.context)
            waits[way] += keys * share - of_context
            if not self.execution.rules.pairs_passes:
                left = max(0.0, computed[way] - hidden - of_context)
                exchanged[way] -= self._hidden_seconds(exchanged[way], left, fraction=self.overlaps.expert)
        return ChunkSeconds(
            forward,
            input_gradient,
            weight_gradient,
            waits["forward"],
            waits["backward"],
            exchanged["forward"],
            exchanged["backward"],
        )

    def _selective_seconds(self, layers: Work, *, products: float, attention: float, memory: float) -> float:
        """Return the time of what selective recomputation computes again of a chunk.

        Every other product by torchtitan's list; else modules: the scores of eager attention, by its two products;
        norms, up-projections of latents, activation functions of routed experts.
        Source: kept_of_list and kept_without_modules; Korthikanti et al. 2022, arXiv 2205.05198, section 5.
        """
        if FRAMEWORKS[self.training.framework].lists_operations:
            return LISTED_SHARE * products + memory
        modules, tokens = recompute_modules_of(self.training), self.execution.num_tokens / self.parallelism.tensor
        again = 0.0
        if self.execution.attention == "eager" and "core-attn" in modules:
            moved = TRAFFIC_OF_SCORES * layers.heads * self.execution.sequence_length * value_bytes(self.training)
            again = attention + tokens * moved / self.gpu.memory_bytes_per_second
        whole = self.parallelism.tensor / self.execution.num_sharing
        values = whole * layers.norm_values * ("layernorm" in modules) + layers.expert_values * ("moe-act" in modules)
        products_again = layers.up_projections * ("mla-up-proj" in modules)
        return again + tokens * sum(self._forward_parts(Work(matrices=products_again, values=values)))

    def _head_seconds(self) -> tuple[float, float]:
        """Return the times of one product of the head, and of what the loss moves through memory."""
        tokens, tensor = self.execution.num_tokens, self.parallelism.tensor
        loss = LOSSES[loss_of(self.training)]
        per_logit = TRAFFIC_OF_LOSS * loss.num_chunks * loss.peak_bytes(value_bytes(self.training), tensor=tensor)
        times = tokens * (1 + self.work.num_modules) / tensor
        products = times * self.work.head.matrices / self.gpu.head_flops
        return products, times * per_logit * self.work.vocabulary / self.gpu.memory_bytes_per_second

    def slot_seconds(self, slot: Slot, chunks: Sequence[ChunkSeconds]) -> float:
        """Return the time of passes that run at once: of a pair, each hides the exchanges of the other."""
        compute, waiting, exchange = (
            sum(each) for each in zip(*(chunks[each.chunk].of_pass(each.kind) for each in slot), strict=True)
        )
        hidden = self._hidden_seconds(exchange, compute, fraction=self.overlaps.expert) if len(slot) > 1 else 0.0
        return float(compute + waiting + exchange - hidden)

    def with_sends(self, chunks: Sequence[ChunkSeconds], device_of: Sequence[int]) -> list[ChunkSeconds]:
        """Add what passes wait for their sends to another device, as far as the next microbatch does not hide it."""
        waited = (1.0 - self.overlaps.pipeline) * self.send_seconds
        last = len(chunks) - 1
        return [
            replace(
                each,
                forward_waiting=each.forward_waiting
                + (waited if chunk < last and device_of[chunk + 1] != device_of[chunk] else 0.0),
                backward_waiting=each.backward_waiting
                + (waited if chunk and device_of[chunk - 1] != device_of[chunk] else 0.0),
            )
            for chunk, each in enumerate(chunks)
        ]

    @property
    def send_seconds(self) -> float:
        """Time to send hidden states, or their gradients, to the next stage."""
        stride = self.parallelism.num_gpus // self.execution.num_stages
        moved = self._bytes_of(self.work.hidden) / self.execution.num_sharing
        return self.links.send_seconds(moved, stride=stride) if self.execution.num_stages > 1 else 0.0

    def _forward_parts(self, layers: Work) -> tuple[float, float, float]:
        """Return the seconds of a token in matrix products, in attention, and in operations bound by memory.

        Without sequence parallelism each rank of a tensor group moves the norms and sums of all its tokens.
        Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.2.2.
        """
        traffic = TRAFFIC_OF_EAGER if kernels_of(self.training).fp32_norm_inputs else 1.0
        whole = self.parallelism.tensor / self.execution.num_sharing
        of_norms = (whole - 1.0) * (1.0 + OF_A_SUM / OF_A_NORM) * layers.norm_values
        values, length = (layers.values + of_norms) * traffic, self.execution.sequence_length
        pairs = self.work.attention_flops(layers, length)
        if self.execution.attention == "eager":
            values += TRAFFIC_OF_SCORES * layers.heads * length
            pairs = (layers.pairs + layers.window_pairs) * length / CAUSAL
        return (
            layers.matrices / self.gpu.layer_flops + layers.experts / self.gpu.expert_flops,
            pairs / self.gpu.attention_flops,
            values * value_bytes(self.training) / self.gpu.memory_bytes_per_second,
        )

    def _chunks_again(self, chunks: tuple[range, ...]) -> tuple[range, ...]:
        return tuple(map(self.execution.again, chunks))

    def _num_sparse(self, chunks: tuple[range, ...]) -> int:
        return sum(num_layers_in(chunks, layers) for layers, work in self.work.kinds if work.experts)

    def _num_divided(self, chunks: tuple[range, ...]) -> float:
        """Count the layers that tensor ranks share. Layers whose experts have fewer tensor ranks count half."""
        halved = self.parallelism.expert_tensor_degree < self.parallelism.tensor
        return sum(map(len, chunks)) - (self._num_sparse(chunks) / 2 if halved else 0)

    def _context_seconds(self, layers: Work) -> float:
        """Return the time to exchange keys and values with context ranks, before attention hides it.

        Once forward, with their gradients twice backward. Source: Liu et al. 2023, Ring Attention, arXiv 2310.01889.
        """
        context, tensor = self.parallelism.context, self.parallelism.tensor
        moved = context * self._bytes_of(layers.key_values) / tensor
        return self.links.collective_seconds(3.0 * moved, num_ranks=context, stride=tensor)

    def _expert_seconds(self, layers: Work, chunk: range) -> float:
        """Return the mean time to send the tokens of a layer to their experts, and to send them back.

        Source: Lepikhin et al. 2020, arXiv 2006.16668; with DeepEP in 8 bits on the way there, where products are in
        8 bits: DeepSeek-AI 2024, arXiv 2412.19437, section 3.3.3.
        """
        expert, tensor = self.parallelism.expert, self.parallelism.tensor
        num_sparse = self._num_sparse((chunk,))
        if expert == 1 or not num_sparse:
            return 0.0
        each = self._bytes_of(layers.routed_values) / tensor / num_sparse
        stride = self.parallelism.expert_tensor_degree
        if self.execution.expert_dispatch == "all-to-all":
            return self.links.exchange_seconds(each, num_ranks=expert, stride=stride)
        ways = (each * (cached_bytes(self.training) or value_bytes(self.training)) / value_bytes(self.training), each)
        once = self.work.experts_per_token
        there, back = (self.links.exchange_seconds(b, num_ranks=expert, stride=stride, once_of=once) for b in ways)
        return (there + back) / 2

    def exposed_exchange(self, exchange: ReplicaExchange, slowest: SlowestStage, *, is_by_layer: bool) -> float:
        """Return the time of the exchange of replicas that computing does not hide.

        Layer by layer it may hide behind all computing. Else gradients are reduced behind the last backward pass, or
        behind as many as they are reduced in, and weights gathered behind the first forward pass; of v chunks each has
        gradients that are done while p microbatches pass the chunks left: (p (v - 1) + 1)/v passes.
        Source: NVIDIA-NeMo/Megatron-Bridge, docs/performance-guide.md, "Communication Overlaps and Tuning".
        """
        fraction, both = self.overlaps.gradients, exchange.seconds
        if is_by_layer:
            return both - self._hidden_seconds(both, slowest.compute_seconds, fraction=fraction)
        p, v = self.execution.num_stages, self.execution.num_chunks
        num_passes = min((p * (v - 1) + 1) / v / (self.execution.num_microbatches or 1), 1.0)
        backward = slowest.compute_seconds - slowest.forward_seconds
        behind = backward * min(num_passes * exchange.num_reductions, 1.0)
        reduced = self._hidden_seconds(exchange.reduce, behind, fraction=fraction)
        gathered = self._hidden_seconds(exchange.gather, slowest.forward_seconds * num_passes, fraction=fraction)
        return both - reduced - gathered

    def _hidden_seconds(self, exchange: float, behind: float, *, fraction: float) -> float:
        """Return how much sooner an exchange of x seconds ends beside c of computing: f min(x, c) (1 - s).

        f the fraction that can be hidden; s the share of the GPU that sends meanwhile, so that computing takes longer.
        """
        return fraction * min(exchange, behind) * (1.0 - self.gpu.communication_share)

    def _bytes_of(self, values: float) -> float:
        return value_bytes(self.training) * self.execution.num_tokens * values


TRAFFIC_OF_OPTIMIZER = 2.0
"""A step reads and writes weights, moments and gradients."""


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes of the training state on the fullest GPU, of the gradient of one parameter, and of host traffic."""

    rank_bytes: float
    gradient_bytes: int
    traffic: HostTraffic | None = None


def step_time(
    work: ModelWork,
    training: Training,
    parallelism: Parallelism,
    *,
    execution: Execution,
    holders: Sequence[HolderClass],
    sharding: Sharding,
    node: ResolvedNode,
    state: StateBytes,
) -> StepTime | None:
    """Return the time of a step: of its passes + exchange + optimizer + offload.

    Passes: all of a step, simulated in the order of the schedule with the time of every stage, as each waits for those
    before it. Offload: time to wait for the host (waited_seconds).
    The range of its error takes the network between nodes, where that is guessed, at both ends of its range.
    None where the node names no GPU, no global batch says how many microbatches there are, or nobody says the rate of a
    link or of drives that state passes.
    Source: PipelineSchedule.device_times; rates: achieved.toml; what is hidden: Overlaps.
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
    stage = Stage.of(work, training, parallelism, execution=execution, sharding=sharding, node=node)
    spans = {holder.span.stages: holder.span for holder in holders}.values()
    by_stage = {each: chunks for span in spans for chunks in [stage.chunks(span)] for each in span.stages}
    slowest = time_passes(stage, [by_stage[each] for each in range(execution.num_stages)])
    exchange = stage.exposed_exchange(
        exchange_of_replicas(
            training,
            parallelism,
            holders=holders,
            sharding=sharding,
            links=stage.links,
            execution=execution,
            reduced=state.gradient_bytes,
        ),
        slowest,
        is_by_layer=sharding.gathers in ("layers", "modules"),
    )
    optimizer = TRAFFIC_OF_OPTIMIZER * state.rank_bytes / stage.gpu.memory_bytes_per_second
    offload = _offload_seconds(stage, slowest, state.traffic, node)
    if offload is None:
        return None
    seconds = slowest.passes_seconds + exchange + optimizer + offload
    facts = StepFacts(
        node.spec.gpu,
        training.precision,
        work.has_experts,
        training.framework,
        execution.sequence_length,
        execution.num_context,
    )
    error, guess = step_errors().group(facts), guessed_fraction(training, node.spec.gpu)
    num_sequences = execution.num_microbatches * parallelism.data * execution.micro_batch_size
    tokens, num_gpus = num_sequences * execution.sequence_length, parallelism.num_gpus
    step = StepTime(
        seconds=seconds,
        seconds_low=error.low * seconds * (guess.value / guess.high if guess else 1.0),
        seconds_high=error.high * seconds * (guess.value / guess.low if guess else 1.0),
        not_compared=tuple(step_errors().list_outside(facts)),
        tokens_per_second=tokens / seconds,
        tokens_per_second_per_gpu=tokens / seconds / num_gpus,
        mfu_fraction=tokens * stage.model_flops / (seconds * num_gpus * stage.gpu.peak_flops),
        compute_seconds=slowest.compute_seconds,
        waiting_seconds=slowest.waiting_seconds,
        bubble_seconds=slowest.bubble_seconds,
        exchange_seconds=exchange,
        optimizer_seconds=optimizer,
        offload_seconds=offload,
    )
    network = guessed_network(node.spec, num_gpus)
    if network is None:
        return step
    slow, fast = (
        step_time(
            work,
            training,
            parallelism,
            execution=execution,
            holders=holders,
            sharding=sharding,
            node=replace(node, spec=node.spec.model_copy(update={"compute_network_bytes_per_second": rate})),
            state=state,
        )
        for rate in (network.low, network.high)
    )
    ends = [("seconds_low", fast and fast.seconds_low), ("seconds_high", slow and slow.seconds_high)]
    return step.model_copy(update=dict(ends))


@dataclass(frozen=True, slots=True)
class SlowestStage:
    """Seconds of all passes of a step, and what the busiest device does of them: computing, waiting, idling."""

    passes_seconds: float
    compute_seconds: float
    forward_seconds: float
    waiting_seconds: float
    bubble_seconds: float


def time_passes(stage: Stage, chunks_of: Sequence[Sequence[ChunkSeconds]]) -> SlowestStage:
    """Simulate the passes of a step; `chunks_of` has the times of each stage's chunks.

    With a schedule that runs both ways a device has stages i and p - 1 - i, each with half of the microbatches.
    """
    execution, p = stage.execution, stage.execution.num_stages
    rules, pipeline = execution.rules, execution.pipeline
    microbatches = execution.num_microbatches or 0
    places: dict[int, tuple[int, ChunkSeconds]] = {}
    for device, chunks in enumerate(chunks_of):
        numbers = (device,) if rules.is_two_way else rules.chunks_on(pipeline, device)
        places |= {number: (device, each) for number, each in zip(numbers, chunks, strict=True)}
    ordered = [places[number] for number in range(len(places))]
    chunks = stage.with_sends([each for _, each in ordered], [device for device, _ in ordered])
    times = rules.device_times(
        pipeline,
        lambda slot: stage.slot_seconds(slot, chunks),
        transfer=stage.overlaps.pipeline * stage.send_seconds,
    )
    slowest = max(range(p), key=times.busy.__getitem__)
    per_microbatch = sum((chunks[chunk] for chunk in set(rules.chunks_on(pipeline, slowest))), ChunkSeconds())
    share = microbatches / 2 if rules.is_two_way and p > 1 else microbatches
    compute = share * per_microbatch.compute
    return SlowestStage(
        passes_seconds=times.seconds,
        compute_seconds=compute,
        forward_seconds=share * per_microbatch.forward,
        waiting_seconds=max(0.0, times.busy[slowest] - compute),
        bubble_seconds=max(0.0, times.seconds - times.busy[slowest]) if p > 1 else 0.0,  # one stage waits for none
    )


def _offload_seconds(
    stage: Stage, slowest: SlowestStage, traffic: HostTraffic | None, node: ResolvedNode
) -> float | None:
    """Return the time that the slowest stage waits for its host; None where a rate is unknown."""
    offload = stage.training.offload
    if offload is None or traffic is None:
        return 0.0
    rates = host_rates(offload, node, num_gpus=stage.parallelism.num_gpus)
    if rates is None:
        return None
    return waited_seconds(
        traffic,
        rates,
        forward_seconds=slowest.forward_seconds,
        backward_seconds=slowest.compute_seconds - slowest.forward_seconds,
        overlaps_update=FRAMEWORKS[stage.training.framework].offload.overlaps_update,
    )
