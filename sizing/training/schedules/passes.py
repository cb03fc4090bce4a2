"""Passes of microbatches through the stages of a pipeline, and how long they take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Work(Enum):
    """What a pass computes. `BACKWARD` is both gradients at once, else inputs come first and weights later."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT_GRADIENT = "I"
    WEIGHT_GRADIENT = "W"


_LETS_GO = (Work.BACKWARD, Work.WEIGHT_GRADIENT)
"""After these nothing of the microbatch is needed there."""


class Pass(NamedTuple):
    """One microbatch through one chunk of the model; chunks are numbered in the model's order from 0."""

    work: Work
    chunk: int
    microbatch: int


Slot = tuple[Pass, ...]
"""Passes that a device runs at once: nearly always one; a forward and a backward pass where they overlap."""


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Time of one microbatch on one stage, all its chunks together, in any unit.

    `overlapped`: of a forward pass together with a whole backward pass, where they overlap; their sum where None.
    """

    forward: float = 1.0
    input_gradient: float = 1.0
    weight_gradient: float = 1.0
    overlapped: float | None = None

    @property
    def backward(self) -> float:
        """Both gradients."""
        return self.input_gradient + self.weight_gradient

    @property
    def total(self) -> float:
        """All passes of a microbatch."""
        return self.forward + self.backward

    @property
    def shortest(self) -> float:
        """The shortest of the three kinds of passes."""
        return min(self.forward, self.input_gradient, self.weight_gradient)

    @property
    def are_equal(self) -> bool:
        """Whether the three kinds of passes take as long as each other, and overlap saves nothing."""
        return self.forward == self.input_gradient == self.weight_gradient and self.overlapped in {None, self.total}

    def slot(self, slot: Slot) -> float:
        """Of passes that run at once, through the whole stage."""
        if len(slot) > 1 and self.overlapped is not None:
            return self.overlapped
        return sum(self._of(each.work) for each in slot)

    def _of(self, work: Work) -> float:
        return {
            Work.FORWARD: self.forward,
            Work.BACKWARD: self.backward,
            Work.INPUT_GRADIENT: self.input_gradient,
            Work.WEIGHT_GRADIENT: self.weight_gradient,
        }[work]


def alone(passes: Iterable[Pass]) -> list[Slot]:
    """Passes one after the other."""
    return [(each,) for each in passes]


def max_held(order: Iterable[Slot], sizes: Sequence[float] | None = None, chunks: Sequence[int] = ()) -> float:
    """Max of what a device holds over its passes: each forward pass of `chunks[k]` adds `sizes[k]`, 1 without sizes.

    What a forward pass keeps goes with the backward pass, or where that is parted with the weight gradients.
    Order alone decides it, not how long the passes take.
    Source: definition.

    >>> f, b = Pass(Work.FORWARD, 0, 0), Pass(Work.BACKWARD, 0, 0)
    >>> max_held(alone([f, f._replace(microbatch=1), b, b._replace(microbatch=1)]))
    2
    """
    size = dict(zip(chunks, sizes, strict=True)) if sizes is not None else {}
    held = most = 0.0 if sizes else 0
    for slot in order:
        held += sum(size.get(each.chunk, 1) for each in slot if each.work is Work.FORWARD)
        most = max(most, held)
        held -= sum(size.get(each.chunk, 1) for each in slot if each.work in _LETS_GO)
    return most
