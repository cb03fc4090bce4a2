"""Passes of microbatches through the stages of a pipeline: how long they take, and a step of them simulated.

In the simulation every device runs its passes in the order of its schedule, each as soon as what it needs is there. A
forward pass needs that of the chunk before, a backward pass that of the chunk behind: from another device it arrives
after the time of a transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class PassKind(Enum):
    """What a pass computes. `BACKWARD` computes both gradients at once, else inputs come first and weights later."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT_GRADIENT = "I"
    WEIGHT_GRADIENT = "W"


class Pass(NamedTuple):
    """Pass of one microbatch through one chunk of the model. Chunks are numbered in the model's order from 0."""

    kind: PassKind
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
        """Time of a backward pass: of both gradients."""
        return self.input_gradient + self.weight_gradient

    @property
    def total(self) -> float:
        """Time of all passes of a microbatch."""
        return self.forward + self.backward

    @property
    def are_equal(self) -> bool:
        """Whether the three kinds of passes take equally long, and overlap saves nothing."""
        return self.forward == self.input_gradient == self.weight_gradient and self.overlapped in {None, self.total}

    def slot_time(self, slot: Slot) -> float:
        """Return the time of passes that run at once, through the whole stage."""
        if len(slot) > 1 and self.overlapped is not None:
            return self.overlapped
        times = {
            PassKind.FORWARD: self.forward,
            PassKind.BACKWARD: self.backward,
            PassKind.INPUT_GRADIENT: self.input_gradient,
            PassKind.WEIGHT_GRADIENT: self.weight_gradient,
        }
        return sum(times[each.kind] for each in slot)


def alone(passes: Iterable[Pass]) -> list[Slot]:
    """Give each pass a slot of its own."""
    return [(each,) for each in passes]


def max_held(order: Iterable[Slot], sizes: Sequence[float] | None = None, chunks: Sequence[int] = ()) -> float:
    """Return the max that a device holds: each forward pass of `chunks[k]` adds `sizes[k]`, or 1 without sizes.

    A backward pass frees what the forward pass kept. Where it is split, its weight gradients do.
    Order alone decides it, not how long the passes take.
    Source: definition.

    >>> f, b = Pass(PassKind.FORWARD, 0, 0), Pass(PassKind.BACKWARD, 0, 0)
    >>> max_held(alone([f, f._replace(microbatch=1), b, b._replace(microbatch=1)]))
    2
    """
    size = dict(zip(chunks, sizes, strict=True)) if sizes is not None else {}
    held = most = 0.0 if sizes else 0
    for slot in order:
        held += sum(size.get(each.chunk, 1) for each in slot if each.kind is PassKind.FORWARD)
        most = max(most, held)
        freeing = (each for each in slot if each.kind in (PassKind.BACKWARD, PassKind.WEIGHT_GRADIENT))
        held -= sum(size.get(each.chunk, 1) for each in freeing)
    return most


@dataclass(frozen=True, slots=True)
class Span:
    """Begin, end and busy time of a device."""

    begin: float
    end: float
    busy: float

    @property
    def idle(self) -> float:
        """Time for which the device waits between its first and its last pass."""
        return self.end - self.begin - self.busy


SlotTime = Callable[[Slot], float]
"""Time that a device takes for the passes that it runs at once."""


Run = tuple[int, int, int]
"""Slot by numbers: its device, its kind, and the run on another device whose result it needs, or -1."""

_WAIT = 0
"""Kind of a run that takes no time: a pair of passes needs a result for each."""


@dataclass(frozen=True, slots=True)
class StepProgram:
    """All slots of a step as runs, each after the one that it needs.

    `examples`: a slot of each kind from 1 on; slots of one kind take equally long, the same kinds of passes through the
    same chunks. `counts`: for each device how many runs of each kind it has.
    """

    runs: tuple[Run, ...]
    examples: tuple[Slot, ...]
    counts: tuple[dict[int, int], ...]

    @classmethod
    def of(cls, orders: Sequence[Sequence[Slot]]) -> StepProgram:
        """Sort the slots of all devices so that each comes after those that it needs.

        What a slot needs of its own device has been run before, as the device runs in order.
        Raises ValueError where passes wait for each other for ever.
        """
        last_chunk = max(each.chunk for order in orders for slot in order for each in slot)
        made_by: dict[_Result, tuple[int, int]] = {}
        kinds: dict[tuple[tuple[PassKind, int], ...], int] = {}
        examples: list[Slot] = []
        runs: list[Run] = []
        counts: list[dict[int, int]] = [{} for _ in orders]
        num_run = [0] * len(orders)
        is_advancing = True
        while is_advancing:
            is_advancing = False
            for device, order in enumerate(orders):
                place = num_run[device]
                while place < len(order):
                    slot = order[place]
                    needed = [made_by.get(result) for each in slot for result in _inputs_of(each, last_chunk)]
                    if None in needed:
                        break
                    name = tuple([(each.kind, each.chunk) for each in slot])
                    kind = kinds.get(name)
                    if kind is None:
                        examples.append(slot)
                        kinds[name] = kind = len(examples)
                    remote = [each[0] for each in needed if each is not None and each[1] != device]
                    runs += [(device, _WAIT, number) for number in remote[1:]]
                    for work, chunk, microbatch in slot:
                        if work is not PassKind.WEIGHT_GRADIENT:
                            made_by[work is PassKind.FORWARD, chunk, microbatch] = len(runs), device
                    runs.append((device, kind, remote[0] if remote else -1))
                    counts[device][kind] = counts[device].get(kind, 0) + 1
                    place += 1
                is_advancing = is_advancing or place > num_run[device]
                num_run[device] = place
        if any(number < len(order) for number, order in zip(num_run, orders, strict=True)):
            raise ValueError("passes wait for each other")
        return cls(tuple(runs), tuple(examples), tuple(counts))

    def walk(self, slot_time: SlotTime, *, transfer: float = 0.0) -> tuple[Span, ...]:
        """Return the span of each device, where what comes from another device takes `transfer` on its way.

        >>> f, b = Pass(PassKind.FORWARD, 0, 0), Pass(PassKind.BACKWARD, 0, 0)
        >>> first, last = ([(f._replace(chunk=c),), (b._replace(chunk=c),)] for c in (0, 1))
        >>> [span.idle for span in StepProgram.of([first, last]).walk(PassTimes().slot_time, transfer=0.5)]
        [4.0, 0.0]
        """
        durations = [0.0, *(slot_time(slot) for slot in self.examples)]
        begins: dict[int, float] = {}
        free = [0.0] * len(self.counts)
        ends: list[float] = []
        finish = ends.append
        for device, kind, needed in self.runs:
            start = free[device]
            if needed >= 0 and ends[needed] + transfer > start:
                start = ends[needed] + transfer
            if device not in begins:
                begins[device] = start
            free[device] = end = start + durations[kind]
            finish(end)
        busy = [sum(number * durations[kind] for kind, number in counted.items()) for counted in self.counts]
        return tuple(Span(begins[device], end, busy[device]) for device, end in enumerate(free))


_Result = tuple[bool, int, int]
"""What a pass leaves for others: whether it went forward, its chunk and its microbatch."""


def _inputs_of(each: Pass, last_chunk: int) -> Iterator[_Result]:
    """Yield the results that a pass needs."""
    kind, chunk, microbatch = each
    if kind is PassKind.FORWARD:
        if chunk:
            yield True, chunk - 1, microbatch
    elif kind is PassKind.WEIGHT_GRADIENT:
        yield False, chunk, microbatch
    elif chunk < last_chunk:
        yield False, chunk + 1, microbatch
    else:
        yield True, chunk, microbatch
