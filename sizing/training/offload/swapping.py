"""Which tensors of a step to swap out: those with the highest score first, until the rest fits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeptTensor:
    """A tensor that the forward pass makes at one time of a step, and that the backward pass uses at another."""

    num_bytes: float
    made_seconds: float
    used_seconds: float

    @property
    def absence_seconds(self) -> float:
        """How long it could be away."""
        return self.used_seconds - self.made_seconds


Score = Callable[[KeptTensor], float]


def duration_of_absence(tensor: KeptTensor) -> float:
    """AutoSwap's DOA, and what TFLMS goes by: how long nobody needs the tensor.

    Source: Zhang et al. 2019, arXiv 1903.06631, section 4.2; Le et al. 2018, arXiv 1807.02037, section 4, which swaps
    what is used furthest behind where it is made.

    >>> duration_of_absence(KeptTensor(8.0, 1.0, 4.0))
    3.0
    """
    return tensor.absence_seconds


def area_of_absence(tensor: KeptTensor) -> float:
    """AutoSwap's AOA: bytes times the time for which nobody needs them.

    Source: Zhang et al. 2019, arXiv 1903.06631, section 4.2.

    >>> area_of_absence(KeptTensor(8.0, 1.0, 4.0))
    24.0
    """
    return tensor.num_bytes * tensor.absence_seconds


def peak_bytes(tensors: Sequence[KeptTensor], swapped: Collection[int] = ()) -> float:
    """Max of what the GPU holds of tensors in a step; one that is swapped is there when it is made and when it is used.

    Source: definition.

    >>> peak_bytes(chain := [KeptTensor(4.0, 0, 5), KeptTensor(4.0, 1, 4), KeptTensor(4.0, 2, 3)])
    12.0
    >>> peak_bytes(chain, {0})
    8.0
    """
    moments = {seconds for tensor in tensors for seconds in (tensor.made_seconds, tensor.used_seconds)}
    return max((sum(_held(t, i in swapped, at) for i, t in enumerate(tensors)) for at in moments), default=0.0)


def _held(tensor: KeptTensor, is_swapped: bool, at_seconds: float) -> float:
    ends = (tensor.made_seconds, tensor.used_seconds)
    is_there = at_seconds in ends if is_swapped else ends[0] <= at_seconds <= ends[1]
    return tensor.num_bytes if is_there else 0.0


def swapped_out(tensors: Sequence[KeptTensor], *, room_bytes: float, score: Score) -> tuple[int, ...] | None:
    """The tensors with the highest score, as few as leave no more than the room; None where swapping all is too little.

    Of equal scores the one that is made first goes.
    Source: Zhang et al. 2019, arXiv 1903.06631, section 4.3, for one limit of memory.

    >>> swapped_out(chain_of([4.0, 4.0, 4.0]), room_bytes=8.0, score=duration_of_absence)
    (0,)
    """
    order = sorted(range(len(tensors)), key=lambda i: (-score(tensors[i]), tensors[i].made_seconds))
    for count in range(len(order) + 1):
        if peak_bytes(tensors, set(order[:count])) <= room_bytes:
            return tuple(order[:count])
    return None


def chain_of(layer_bytes: Sequence[float]) -> list[KeptTensor]:
    """What the layers of a chain keep, a unit of time for each in either direction: made in order, used in reverse."""
    last = 2 * len(layer_bytes) - 1
    return [KeptTensor(num_bytes, float(i), float(last - i)) for i, num_bytes in enumerate(layer_bytes)]
