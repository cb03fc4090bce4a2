"""Chain of layers: bytes and time of each; and plans that keep everything, or only the inputs of segments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

Keep = Literal["nothing", "input", "all"]
"""What a forward step leaves for later: nothing, its input, or its input and all that its backward step needs."""


@dataclass(frozen=True, slots=True)
class ChainLayer:
    """Layer of a chain: times of both passes in one unit, bytes of its input, and other bytes that backward needs."""

    forward_time: float
    backward_time: float
    input_bytes: float
    kept_bytes: float


@dataclass(frozen=True, slots=True)
class LayerChain:
    """Layers in sequence; `output_bytes`: of the last layer's output, and of the gradient that comes back to it."""

    layers: tuple[ChainLayer, ...]
    output_bytes: float

    @classmethod
    def of_equal(cls, number: int, layer: ChainLayer) -> LayerChain:
        """Make a chain of equal layers."""
        return cls((layer,) * number, layer.input_bytes)

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def value_bytes(self) -> tuple[float, ...]:
        """Bytes of each layer's input and, last, of the output. Their gradients are as large."""
        return (*(layer.input_bytes for layer in self.layers), self.output_bytes)

    @property
    def time(self) -> float:
        """Time of every forward and backward pass once, without recomputation."""
        return sum(layer.forward_time + layer.backward_time for layer in self.layers)


class ChainStep(NamedTuple):
    """Forward step of a layer with what it keeps, or its backward step where `keep` is None."""

    layer: int
    keep: Keep | None


@dataclass(frozen=True, slots=True)
class RecomputationPlan:
    """Steps that take each layer back once, with their time and their max of bytes held."""

    steps: tuple[ChainStep, ...]
    time: float
    extra_time: float
    peak_bytes: float

    @property
    def extra_fraction(self) -> float:
        """Time of recomputation as a fraction of the time without it."""
        return self.extra_time / (self.time - self.extra_time)

    @property
    def forward_counts(self) -> tuple[int, ...]:
        """Number of forward passes of each layer."""
        layers = [step.layer for step in self.steps if step.keep is not None]
        return tuple(layers.count(layer) for layer in range(max(layers) + 1))


def carry_out(chain: LayerChain, steps: Iterable[ChainStep]) -> RecomputationPlan:
    """Carry out steps, and return the plan with their time and the max of bytes held.

    At each step these are held: inputs that were kept, what backward steps need of layers that kept all, the value that
    the step before left, and the gradient that comes back next, which is there from the start. A forward step also
    holds its output. A backward step also holds its input's gradient, and frees its layer when it ends.
    Raises ValueError where a step lacks what it needs, or layers do not go back once each, the last one first.
    """
    layers, sizes = chain.layers, chain.value_bytes
    inputs, kept = {0}, set[int]()
    at, next_back = 0, chain.num_layers - 1
    time = peak = 0.0
    done = tuple(steps)
    for layer, keep in done:
        if keep is None and (layer != next_back or layer not in kept):
            raise ValueError(f"layer {layer} cannot go back")
        if keep is not None and layer not in inputs | {at}:
            raise ValueError(f"layer {layer} has no input")
        if keep == "all":
            kept.add(layer)
        if keep in ("all", "input"):
            inputs.add(layer)
        held = sum(sizes[each] for each in inputs | {layer}) + sum(layers[each].kept_bytes for each in kept)
        made = sizes[layer] if keep is None else sizes[layer + 1]
        peak = max(peak, held + made + sizes[next_back + 1])
        if keep is None:
            kept.remove(layer)
            inputs.discard(layer)
            at, next_back = 0, next_back - 1
            time += layers[layer].backward_time
        else:
            at = layer + 1
            time += layers[layer].forward_time
    if next_back != -1:
        raise ValueError(f"layers up to {next_back} have not gone back")
    return RecomputationPlan(done, time, time - chain.time, peak)


def keep_all(layers: Sequence[int]) -> list[ChainStep]:
    """Return forward steps that keep everything, then the backward steps of the same layers."""
    return [*(ChainStep(layer, "all") for layer in layers), *(ChainStep(layer, None) for layer in reversed(layers))]


def pass_forward(segment: range) -> Iterator[ChainStep]:
    """Yield the forward steps of a segment of layers that keep the input of its first layer alone."""
    yield ChainStep(segment.start, "input")
    yield from (ChainStep(layer, "nothing") for layer in segment[1:])


def cut_into_segments(chain: LayerChain, num_segments: int) -> RecomputationPlan:
    """Plan equal segments, as far as they can be. Each goes forward once, and all but the last one again to go back.

    Source: Chen et al. 2016, arXiv 1604.06174, algorithm 1.

    >>> from sizing.training.rematerialization.chain import ChainLayer
    >>> cut_into_segments(LayerChain.of_equal(9, ChainLayer(1, 2, 1, 3)), 3).extra_time
    6.0
    """
    n = chain.num_layers
    edges = [number * n // num_segments for number in range(num_segments + 1)]
    segments = [range(*pair) for pair in pairwise(edges)]
    forward = [step for segment in segments[:-1] for step in pass_forward(segment)]
    back = [step for segment in reversed(segments) for step in keep_all(segment)]
    return carry_out(chain, [*forward, *back])


def sqrt_plan(chain: LayerChain) -> RecomputationPlan:
    """Plan about sqrt(n) segments of sqrt(n) layers: memory grows with the root of n for one more forward pass.

    Source: Chen et al. 2016, arXiv 1604.06174, section 4.2.

    >>> from sizing.training.rematerialization.chain import ChainLayer
    >>> sqrt_plan(LayerChain.of_equal(16, ChainLayer(1, 2, 1, 3))).extra_time
    12.0
    """
    return cut_into_segments(chain, max(1, math.isqrt(chain.num_layers)))
