"""What one stage does with a microbatch: what it computes, computes again, and waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sizing.layout import Parallelism
from sizing.layout.stages import StageSpan
from sizing.model.inventory import layers_between
from sizing.state import Training
from sizing.training.execution import Execution, loss_of, value_bytes
from sizing.training.kernels import kernels_of
from sizing.training.losses import LOSSES
from sizing.training.time.gpu_rates import GpuRates
from sizing.training.time.links import Links
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


class Passes(NamedTuple):
    """Seconds of one microbatch on a stage: computing, of it forward, and waiting."""

    compute: float
    forward: float
    waiting: float

    @property
    def seconds(self) -> float:
        """Both."""
        return self.compute + self.waiting


@dataclass(frozen=True, slots=True)
class Stage:
    """What a GPU of a stage does with one microbatch."""

    work: ModelWork
    training: Training
    parallelism: Parallelism
    execution: Execution
    gpu: GpuRates
    links: Links

    @property
    def model_flops(self) -> float:
        """Operations of a token in a whole step: three times the forward pass, attention in full."""
        layers = self.work.between(len) + self.work.head
        pairs = 2.0 * layers.pairs * self.execution.sequence_length
        return (1.0 + BACKWARD_PRODUCTS) * (layers.matrices + layers.experts + pairs)

    def passes(self, span: StageSpan) -> Passes:
        """Of one microbatch."""
        return Passes(self.compute_seconds(span), self.forward_seconds(span), self.waiting_seconds(span))

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
