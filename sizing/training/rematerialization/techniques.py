"""Techniques of recomputation: each chooses a plan for a chain with several microbatches in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sizing.training.rematerialization.chain import (
    ChainStep,
    LayerChain,
    RecomputationPlan,
    carry_out,
    keep_all,
    sqrt_plan,
)
from sizing.training.rematerialization.dynamic_programs import MAX_LAYERS, Rotor, revolve, smallest


@dataclass(frozen=True, slots=True)
class Room:
    """Room of a GPU for a chain, with this number of microbatches in flight at once.

    Bytes beside the chain: `at_loss`, `in_layer` in the backward pass of a layer, `at_end` after the last of them.
    """

    num_bytes: float
    in_flight: float = 1.0
    at_loss: float = 0.0
    in_layer: float = 0.0
    at_end: float = 0.0

    def needed(self, chain: LayerChain, plan: RecomputationPlan) -> float:
        """Return a plan's bytes at the fullest time: max of L + F k, B + (F - 1) k + P and E.

        k bytes that a microbatch leaves after its forward passes, F microbatches in flight, P the plan's peak; beside
        the chain L bytes at the loss, B in a layer's backward pass and E at the end.
        Source: definition; only one microbatch at a time goes back on a stage, and the loss is freed before it does.
        """
        left = resident_bytes(chain, plan.steps)
        in_layer = self.in_layer + (self.in_flight - 1) * left + plan.peak_bytes
        return max(self.at_loss + self.in_flight * left, in_layer, self.at_end)

    def fits(self, chain: LayerChain, plan: RecomputationPlan) -> bool:
        """Tell whether the plan needs no more bytes than the room has."""
        return self.needed(chain, plan) <= self.num_bytes


@dataclass(frozen=True, slots=True)
class RecomputationTechnique:
    """Technique that chooses a plan: the fastest that fits the room as far as it has a choice, else its smallest."""

    name: str
    plan: Callable[[LayerChain, Room], RecomputationPlan]
    what: str
    source: str


def resident_bytes(chain: LayerChain, steps: Iterable[ChainStep]) -> float:
    """Return the bytes of inputs, and of what backward needs beside them, that stay after the last forward step.

    Source: definition.

    >>> from sizing.training.rematerialization.chain import ChainLayer
    >>> four = LayerChain.of_equal(4, ChainLayer(1, 2, 1, 3))
    >>> resident_bytes(four, keep_all(range(4))), resident_bytes(four, one_by_one(four, [0, 1]).steps)
    (16.0, 10.0)
    """
    held = 0.0
    for number, keep in steps:
        layer = chain.layers[number]
        if keep in ("input", "all"):
            held += layer.input_bytes
        if keep == "all":
            held += layer.kept_bytes
        if number == chain.num_layers - 1:
            break
    return held


def one_by_one(chain: LayerChain, again: Iterable[int]) -> RecomputationPlan:
    """Plan to recompute some layers, each from its own input just before its backward pass, as training frameworks do.

    Source: Megatron-LM, --recompute-method block; torch.utils.checkpoint.

    >>> from sizing.training.rematerialization.chain import ChainLayer
    >>> one_by_one(LayerChain.of_equal(4, ChainLayer(1, 2, 1, 3)), [0, 1]).forward_counts
    (2, 2, 1, 1)
    """
    chosen = set(again)
    forward = [ChainStep(layer, "input" if layer in chosen else "all") for layer in range(chain.num_layers)]
    back = [
        step
        for layer in reversed(range(chain.num_layers))
        for step in (keep_all([layer]) if layer in chosen else [ChainStep(layer, None)])
    ]
    return carry_out(chain, [*forward, *back])


def fewest(chain: LayerChain, room: Room) -> RecomputationPlan:
    """Recompute the fewest layers with which the plan fits: first those that save most bytes for their time.

    Of equal layers it takes the first, as nothing of the later layers is held when they are recomputed.
    """
    saved_per_time = [layer.kept_bytes / layer.forward_time for layer in chain.layers]
    order = sorted(range(chain.num_layers), key=lambda number: (-saved_per_time[number], number))
    for number in range(len(order) + 1):
        plan = one_by_one(chain, order[:number])
        if room.fits(chain, plan):
            return plan
    return plan


def _revolve(chain: LayerChain, room: Room) -> RecomputationPlan:
    """Plan by `revolve` with as many kept inputs as fit, found by bisection; with one input where nothing fits."""
    low, high = 1, chain.num_layers
    best = revolve(chain, low)
    while low < high:
        number = (low + high + 1) // 2
        plan = revolve(chain, number)
        if room.fits(chain, plan):
            low, best = number, plan
        else:
            high = number - 1
    return best


def _rotor(chain: LayerChain, room: Room) -> RecomputationPlan:
    """Plan by `rotor`. With several microbatches in flight, or a large loss, bisect for the largest budget that fits.

    Where nothing fits it is the plan that needs least, with what all microbatches in flight leave.
    """
    simple = (fewest(chain, room), smallest(chain), revolve(chain, 1))
    best = min(simple, key=lambda plan: (not room.fits(chain, plan), plan.time))
    if not room.fits(chain, best):
        return min(simple, key=lambda plan: room.needed(chain, plan))
    if chain.num_layers > MAX_LAYERS:
        return best
    low, high = smallest(chain).peak_bytes, room.num_bytes - room.in_layer
    program = Rotor(chain, high)
    for number in range(_BISECTIONS):
        budget = high if room.in_flight == 1 and not number else (low + high) / 2
        plan = program.plan(budget)
        fits = room.fits(chain, plan)
        low, high = (budget, high) if fits else (low, budget)
        if fits and plan.time < best.time:
            best = plan
        if low == high:
            break
    return best


_BISECTIONS = 8
"""Bisections of the room: it is found to a 256th."""

TECHNIQUES = (
    RecomputationTechnique("none", lambda chain, _: one_by_one(chain, ()), "everything is kept", "definition"),
    RecomputationTechnique(
        "fewest layers",
        fewest,
        "the fewest layers from their inputs, one by one",
        "Megatron-LM, --recompute-method block",
    ),
    RecomputationTechnique(
        "every layer",
        lambda chain, _: one_by_one(chain, range(chain.num_layers)),
        "every layer from its input, one by one",
        "Korthikanti et al. 2022, arXiv 2205.05198, section 5",
    ),
    RecomputationTechnique(
        "sqrt(n)",
        lambda chain, _: sqrt_plan(chain),
        "segments of sqrt(n) layers from their inputs",
        "Chen et al. 2016, arXiv 1604.06174",
    ),
    RecomputationTechnique(
        "revolve",
        _revolve,
        "as many inputs kept as fit, the least forward steps for like layers",
        "Griewank and Walther 2000, Algorithm 799",
    ),
    RecomputationTechnique(
        "rotor", _rotor, "the least time that fits, layers also more than twice", "Beaumont et al. 2019"
    ),
)
"""Techniques, in the order in which they are shown."""
