"""A chain of layers as rematerialization sees it, and what happens to memory while its steps are carried out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Keep = Literal["nothing", "input", "all"]
"""What a forward step leaves for later: nothing, its input, or its input and all that its backward step needs."""


@dataclass(frozen=True, slots=True)
class Link:
    """One layer: times of both passes in one unit, bytes of its input, and bytes that backward needs beside it."""

    forward_time: float
    backward_time: float
    input_bytes: float
    kept_bytes: float


@dataclass(frozen=True, slots=True)
class Chain:
    """Layers one after the other; `output_bytes` of the last one, and of the gradient that comes back to it."""

    links: tuple[Link, ...]
    output_bytes: float

    @classmethod
    def of_equal(cls, number: int, link: Link) -> Chain:
        """So many layers alike."""
        return cls((link,) * number, link.input_bytes)

    @property
    def num_links(self) -> int:
        """Layers."""
        return len(self.links)

    @property
    def value_bytes(self) -> tuple[float, ...]:
        """Bytes of each layer's input and, last, of the output. Their gradients are as large."""
        return (*(link.input_bytes for link in self.links), self.output_bytes)

    @property
    def time(self) -> float:
        """All passes once."""
        return sum(link.forward_time + link.backward_time for link in self.links)


class Step(NamedTuple):
    """A forward step of a layer that keeps something, or with `keep` None its backward step."""

    layer: int
    keep: Keep | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps that take each layer back once, what they take and the max of bytes that they hold."""

    steps: tuple[Step, ...]
    time: float
    extra_time: float
    peak_bytes: float

    @property
    def extra_fraction(self) -> float:
        """Extra time, over the time without recomputation."""
        return self.extra_time / (self.time - self.extra_time)

    @property
    def forward_counts(self) -> tuple[int, ...]:
        """How often each layer goes forward."""
        layers = [step.layer for step in self.steps if step.keep is not None]
        return tuple(layers.count(layer) for layer in range(max(layers) + 1))


def carried_out(chain: Chain, steps: Iterable[Step]) -> Plan:
    """Time and peak of steps.

    Held at each moment: inputs that were kept, what backward steps need of layers that kept all, the value that the
    last step left, and the gradient that comes back next, there from the start. A forward step also holds its output, a
    backward step also its input's gradient; then it lets go of its layer.
    Raises ValueError where a step lacks what it needs, or layers do not go back once each, the last one first.
    """
    run = _Run(chain)
    done = tuple(steps)
    for step in done:
        run.take(step)
    if run.next_back != -1:
        raise ValueError(f"layers up to {run.next_back} have not gone back")
    return Plan(done, run.time, run.time - chain.time, run.peak)


class _Run:
    def __init__(self, chain: Chain) -> None:
        self._links, self._sizes = chain.links, chain.value_bytes
        self._inputs: set[int] = {0}
        self._kept: set[int] = set()
        self._at = 0
        self.next_back = chain.num_links - 1
        self.time = 0.0
        self.peak = 0.0

    def take(self, step: Step) -> None:
        if step.keep is None:
            self._back(step.layer)
        else:
            self._forward(step.layer, step.keep)

    def _forward(self, layer: int, keep: Keep) -> None:
        if layer not in self._inputs | {self._at}:
            raise ValueError(f"layer {layer} has no input")
        self._at = layer
        if keep == "all":
            self._kept.add(layer)
        if keep != "nothing":
            self._inputs.add(layer)
        self._note(self._sizes[layer + 1])
        self._at = layer + 1
        self.time += self._links[layer].forward_time

    def _back(self, layer: int) -> None:
        if layer != self.next_back or layer not in self._kept:
            raise ValueError(f"layer {layer} cannot go back")
        self._at = layer
        self._note(self._sizes[layer])
        self._kept.remove(layer)
        self._inputs.discard(layer)
        self._at = 0
        self.next_back -= 1
        self.time += self._links[layer].backward_time

    def _note(self, passing_bytes: float) -> None:
        """Take the peak, with what a step holds beside all that stays."""
        inputs = sum(self._sizes[layer] for layer in self._inputs | {self._at})
        kept = sum(self._links[layer].kept_bytes for layer in self._kept)
        self.peak = max(self.peak, inputs + kept + passing_bytes + self._sizes[self.next_back + 1])


def kept_all(layers: Sequence[int]) -> list[Step]:
    """Forward steps that keep all, then the backward steps of the same layers."""
    return [*(Step(layer, "all") for layer in layers), *(Step(layer, None) for layer in reversed(layers))]
