"""Ways to choose what is computed again, each an object, with several microbatches in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sizing.training.rematerialization.chain import Chain, Plan, Step, carried_out, kept_all
from sizing.training.rematerialization.revolve import revolve
from sizing.training.rematerialization.rotor import MAX_LINKS, rotor, smallest
from sizing.training.rematerialization.segments import sqrt_plan


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes for the activations of a chain of which so many microbatches are in flight at once."""

    num_bytes: float
    in_flight: float = 1.0

    def needed(self, chain: Chain, plan: Plan) -> float:
        """Bytes of a plan: (F - 1) times what one microbatch leaves after its forward passes, and the peak of another.

        Source: definition; only one microbatch at a time goes back on a stage.
        """
        return (self.in_flight - 1) * resident_bytes(chain, plan.steps) + plan.peak_bytes

    def fits(self, chain: Chain, plan: Plan) -> bool:
        """Whether the plan needs no more."""
        return self.needed(chain, plan) <= self.num_bytes


@dataclass(frozen=True, slots=True)
class Technique:
    """A way to choose a plan: the one of least time that fits the room as far as it has a choice, else its smallest."""

    name: str
    plan: Callable[[Chain, Room], Plan]
    what: str
    source: str


def resident_bytes(chain: Chain, steps: Iterable[Step]) -> float:
    """Bytes of inputs, and of what backward needs beside them, that stay when the last layer has gone forward.

    Source: definition.

    >>> from sizing.training.rematerialization.chain import Link
    >>> four = Chain.of_equal(4, Link(1, 2, 1, 3))
    >>> resident_bytes(four, kept_all(range(4))), resident_bytes(four, one_by_one(four, [0, 1]).steps)
    (16.0, 10.0)
    """
    held = 0.0
    for layer, keep in steps:
        link = chain.links[layer]
        held += {"nothing": 0, "input": link.input_bytes, "all": link.input_bytes + link.kept_bytes}[keep or "nothing"]
        if layer == chain.num_links - 1:
            break
    return held


def one_by_one(chain: Chain, again: Iterable[int]) -> Plan:
    """Some layers are computed again, each from its own input just before it goes back, as training frameworks do it.

    Source: Megatron-LM, --recompute-method block; torch.utils.checkpoint.

    >>> from sizing.training.rematerialization.chain import Link
    >>> one_by_one(Chain.of_equal(4, Link(1, 2, 1, 3)), [0, 1]).forward_counts
    (2, 2, 1, 1)
    """
    chosen = set(again)
    forward = [Step(layer, "input" if layer in chosen else "all") for layer in range(chain.num_links)]
    back = [
        step
        for layer in reversed(range(chain.num_links))
        for step in (kept_all([layer]) if layer in chosen else [Step(layer, None)])
    ]
    return carried_out(chain, [*forward, *back])


def fewest(chain: Chain, room: Room) -> Plan:
    """Of `one_by_one` the fewest layers that fit, those first that save most for their time, then the first ones.

    The first ones, as nothing of the layers behind them is left when they are computed again.
    """
    order = sorted(range(chain.num_links), key=lambda layer: (-_saved(chain, layer), layer))
    for number in range(len(order) + 1):
        plan = one_by_one(chain, order[:number])
        if room.fits(chain, plan):
            return plan
    return plan


def _saved(chain: Chain, layer: int) -> float:
    link = chain.links[layer]
    return link.kept_bytes / link.forward_time


def _revolve(chain: Chain, room: Room) -> Plan:
    """With as many kept inputs as fit, by bisection; with one where nothing does."""
    low, high = 1, chain.num_links
    best = revolve(chain, low)
    while low < high:
        number = (low + high + 1) // 2
        plan = revolve(chain, number)
        if room.fits(chain, plan):
            low, best = number, plan
        else:
            high = number - 1
    return best


def _rotor(chain: Chain, room: Room) -> Plan:
    """With several microbatches in flight the largest budget of one with which all of them fit, by bisection."""
    best = min((fewest(chain, room), smallest(chain)), key=lambda plan: (not room.fits(chain, plan), plan.time))
    if chain.num_links > MAX_LINKS or not room.fits(chain, best):
        return best
    low, high = smallest(chain).peak_bytes, room.num_bytes
    for _ in range(1 if room.in_flight == 1 else _BISECTIONS):
        budget = high if room.in_flight == 1 else (low + high) / 2
        plan = rotor(chain, budget)
        fits = room.fits(chain, plan)
        low, high = (budget, high) if fits else (low, budget)
        if fits and plan.time < best.time:
            best = plan
    return best


_BISECTIONS = 8
"""To a 256th of the room."""

TECHNIQUES = (
    Technique("none", lambda chain, _: one_by_one(chain, ()), "everything is kept", "definition"),
    Technique(
        "fewest layers",
        fewest,
        "the fewest layers from their inputs, one by one",
        "Megatron-LM, --recompute-method block",
    ),
    Technique(
        "every layer",
        lambda chain, _: one_by_one(chain, range(chain.num_links)),
        "every layer from its input, one by one",
        "Korthikanti et al. 2022, arXiv 2205.05198, section 5",
    ),
    Technique(
        "sqrt(n)",
        lambda chain, _: sqrt_plan(chain),
        "segments of sqrt(n) layers from their inputs",
        "Chen et al. 2016, arXiv 1604.06174",
    ),
    Technique(
        "revolve",
        _revolve,
        "as many inputs kept as fit, the least forward steps for like layers",
        "Griewank and Walther 2000, Algorithm 799",
    ),
    Technique("rotor", _rotor, "the least time that fits, layers also more than twice", "Beaumont et al. 2019"),
)
"""In the order in which they are shown."""
