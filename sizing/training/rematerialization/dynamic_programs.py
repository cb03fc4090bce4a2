"""Optimal plans for a chain: Revolve of equal layers, Rotor of unlike ones, both as dynamic programs."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sizing.errors import InvalidInput
from sizing.training.rematerialization.chain import (
    ChainStep,
    LayerChain,
    RecomputationPlan,
    carry_out,
    keep_all,
    pass_forward,
)
from sizing.units import decimal_bytes_text


def num_advances(num_layers: int, num_inputs: int) -> int:
    """Count the forward steps beside those that a backward step follows: r l - C(c + r, c + 1).

    l layers, c inputs kept at a time, that of the chain among them; r, the least with C(c + r, c) >= l, is how often a
    layer goes forward at most.
    Source: Griewank and Walther 2000, Algorithm 799, ACM TOMS 26(1), equation 4.

    >>> num_advances(10, 3), num_advances(10, 10), num_advances(10, 1)
    (15, 9, 45)
    """
    r = next(r for r in range(num_layers + 1) if math.comb(num_inputs + r, num_inputs) >= num_layers)
    return r * num_layers - math.comb(num_inputs + r, num_inputs + 1)


def revolve(chain: LayerChain, num_inputs: int) -> RecomputationPlan:
    """Plan with at most `num_inputs` kept inputs at a time. A layer keeps the rest only just before its backward pass.

    Source: Griewank and Walther 2000, Algorithm 799, ACM TOMS 26(1), section 2.
    Raises InvalidInput for fewer inputs than one, that of the chain.

    >>> from sizing.training.rematerialization.chain import ChainLayer
    >>> revolve(LayerChain.of_equal(10, ChainLayer(1, 2, 1, 3)), 3).extra_time
    15.0
    """
    if num_inputs < 1:
        raise InvalidInput.of(
            "num_inputs", "must be at least 1, the input of the chain", value=num_inputs, remedy="give 1 or more"
        )
    return carry_out(chain, _steps(0, chain.num_layers, num_inputs))


def _steps(first: int, past: int, num_inputs: int) -> Iterator[ChainStep]:
    """Yield the steps that take layers first..past back. `num_inputs` counts the input of the first, which is kept.

    They keep the next input where that takes the fewest steps in all.
    """
    length = past - first
    if length == 1:
        yield from keep_all([first])
        return
    if num_inputs == 1:
        yield from pass_forward(range(first, past - 1))
        yield from keep_all([past - 1])
        yield from _steps(first, past - 1, 1)
        return

    def num_steps(layers: int) -> int:
        return layers + num_advances(length - layers, num_inputs - 1) + num_advances(layers, num_inputs)

    cut = first + min(range(1, length), key=num_steps)
    yield from pass_forward(range(first, cut))
    yield from _steps(cut, past, num_inputs - 1)
    yield from _steps(first, cut, num_inputs)


MIN_SLOTS, MAX_SLOTS = 500, 20_000
"""Slots of the memory, with sizes rounded up to whole ones: 500 in Beaumont et al. 2019, section 5.1, where layers
are many. Few layers leave time for more, and more lose less by rounding."""

MAX_WORK = 1e8
"""Slots x layers^3 / 6, which is what the program goes through: a second or so."""

MAX_LAYERS = 256
"""The program takes time with their cube. Deeper models take several layers as one."""

Times = NDArray[np.float64]


class _LeastTime:
    """Dynamic program of C(s, t, m): least time to bring layers s..t back with m slots beside the input of s.

    C(s, t, m) is the less of f_s + C(s + 1, t, m - x_{s+1} - k_s) + b_s, which keeps all of s, and over s' of
    f_s + ... + f_{s'-1} + C(s', t, m - x_{s'}) + C(s, s' - 1, m), which keeps the input of s' and comes back to s.
    """

    def __init__(self, chain: LayerChain, max_bytes: float, *, num_slots: int, max_segment: int) -> None:
        self._n, self._max_segment = chain.num_layers, max_segment
        self._slot_bytes = max_bytes / num_slots

        def slots(num_bytes: float) -> int:
            """Return the bytes in slots, rounded up unless the excess is mere rounding error."""
            return math.ceil(num_bytes / self._slot_bytes - 1e-9)

        self._values = [slots(each) for each in chain.value_bytes]
        outputs = zip(chain.value_bytes[1:], chain.layers, strict=True)
        self._left = [slots(output + layer.kept_bytes) for output, layer in outputs]
        self._forward = [layer.forward_time for layer in chain.layers]
        self._backward = [layer.backward_time for layer in chain.layers]
        self._room = np.arange(num_slots + 1)
        self._times: dict[tuple[int, int], Times] = {}
        self._choices: dict[tuple[int, int], NDArray[np.int64]] = {}
        for length in range(self._n):
            for first in range(self._n - length):
                last = first + length
                if length < self._max_segment or last == self._n - 1:
                    self._solve(first, last)

    def find_steps(self, budget_bytes: float) -> list[ChainStep] | None:
        """Return the steps of least time within a budget; None where nothing fits."""
        room = math.floor(budget_bytes / self._slot_bytes + 1e-9) - self._values[0]
        if room < 0 or math.isinf(self._times[0, self._n - 1][room]):
            return None
        return list(self._walk(0, self._n - 1, room))

    def _solve(self, s: int, t: int) -> None:
        """Find the least time and the next kept input of layers s..t for every room; 0: all of s is kept."""
        best = np.full(len(self._room), self._forward[s] + self._backward[s], dtype=np.float64)
        if t > s:
            best += self._shift(self._times[s + 1, t], self._left[s])
        best[self._room < self._left[s] + max(self._values[t + 1], self._values[s])] = np.inf
        choice = np.zeros(len(best), dtype=np.int64)
        run, transient = 0.0, 0
        for cut in range(s + 1, min(t, s + self._max_segment) + 1):
            run += self._forward[cut - 1]
            before = self._values[cut - 1] if cut - 1 > s else 0
            transient = max(transient, before + self._values[cut])
            time = run + self._shift(self._times[cut, t], self._values[cut]) + self._times[s, cut - 1]
            time[self._room < transient + self._values[t + 1]] = np.inf
            is_better = time < best
            best, choice = np.where(is_better, time, best), np.where(is_better, cut, choice)
        self._times[s, t], self._choices[s, t] = best, choice

    @staticmethod
    def _shift(times: Times, slots: int) -> Times:
        """Return the times where some of the slots are taken."""
        shifted = np.full(len(times), np.inf)
        if slots < len(times):
            shifted[slots:] = times[: len(times) - slots]
        return shifted

    def _walk(self, s: int, t: int, room: int) -> Iterator[ChainStep]:
        cut = int(self._choices[s, t][room])
        if cut:
            yield from pass_forward(range(s, cut))
            yield from self._walk(cut, t, room - self._values[cut])
            yield from self._walk(s, cut - 1, room)
            return
        yield ChainStep(s, "all")
        if t > s:
            yield from self._walk(s + 1, t, room - self._left[s])
        yield ChainStep(s, None)


def rotor(
    chain: LayerChain, budget_bytes: float, *, num_slots: int | None = None, max_segment: int | None = None
) -> RecomputationPlan:
    """Find the plan of least time within a budget, among those that keep a tensor until its layer's backward pass.

    Sizes are rounded up to 1/num_slots of the budget. `max_segment`: layers between two kept inputs; with 1 each layer
    is either kept or computed again from its own input, as training frameworks do it.
    Source: Beaumont et al. 2019, arXiv 1911.13214, theorem 1; Gusak et al. 2022, arXiv 2202.10435, section 3.1.
    Raises InvalidInput for a budget below the least that is possible, which it names, or too many layers.

    >>> from sizing.training.rematerialization.chain import ChainLayer
    >>> rotor(LayerChain.of_equal(4, ChainLayer(1, 2, 1, 3)), 12, num_slots=12).extra_time
    2.0
    """
    return Rotor(chain, budget_bytes, num_slots=num_slots, max_segment=max_segment).plan(budget_bytes)


class Rotor:
    """Plans of `rotor` within any budget up to the largest, 1/num_slots of which all sizes are rounded up to.

    What the program finds for one budget it finds for each that is less, so that it goes through the layers once.
    Raises InvalidInput as `rotor` does.
    """

    def __init__(
        self, chain: LayerChain, max_bytes: float, *, num_slots: int | None = None, max_segment: int | None = None
    ) -> None:
        if not max_bytes > 0:
            raise InvalidInput.of(
                "budget_bytes", "must be above 0", value=max_bytes, remedy="give the memory that activations may take"
            )
        if chain.num_layers > MAX_LAYERS:
            rule, remedy = f"must have at most {MAX_LAYERS} layers", "take several layers as one"
            raise InvalidInput.of("chain", rule, value=chain.num_layers, remedy=remedy)
        self._chain, self._max_bytes, self._num_slots = chain, max_bytes, num_slots
        self._segment = chain.num_layers if max_segment is None else max_segment
        self._everything = carry_out(chain, keep_all(range(chain.num_layers)))

    def plan(self, budget_bytes: float) -> RecomputationPlan:
        """Find the plan of least time within a budget. Raises InvalidInput below the least that is possible."""
        if self._everything.peak_bytes <= budget_bytes:
            return self._everything
        if self._least.peak_bytes > budget_bytes:
            least = decimal_bytes_text(round(self._least.peak_bytes))
            raise InvalidInput.of(
                "budget_bytes",
                f"must be at least {least}, the least that any plan of it needs",
                value=budget_bytes,
                remedy="give more memory or cut the batch",
            )
        steps = self._program.find_steps(budget_bytes)
        return self._least if steps is None else carry_out(self._chain, steps)

    @functools.cached_property
    def _least(self) -> RecomputationPlan:
        return smallest(self._chain, max_segment=self._segment)

    @functools.cached_property
    def _program(self) -> _LeastTime:
        n, num_slots = self._chain.num_layers, self._num_slots
        if num_slots is None:
            work_per_slot = n**2 * min(n, 3 * self._segment) / 6
            most = int(min(max(MAX_WORK / work_per_slot, MIN_SLOTS), MAX_SLOTS))
            num_slots = _choose_slots(self._chain, self._max_bytes, most=most)
        return _LeastTime(self._chain, self._max_bytes, num_slots=num_slots, max_segment=self._segment)


def _choose_slots(chain: LayerChain, budget_bytes: float, *, most: int) -> int:
    """Choose the number of slots, at most `most`, with which the sizes of tensors lose least by rounding."""
    sizes = np.unique([*chain.value_bytes, *(layer.kept_bytes for layer in chain.layers)])
    sizes = sizes[sizes > 0]
    numbers = np.arange(most, most // 2, -1)
    rounded = np.ceil(sizes[:, None] / budget_bytes * numbers - 1e-9)
    excess = (rounded * budget_bytes / numbers / sizes[:, None]).max(axis=0)
    return int(numbers[np.argmin(excess)])


def smallest(chain: LayerChain, *, max_segment: int | None = None) -> RecomputationPlan:
    """Find the plan of least peak, to the byte, among those that keep a tensor until its layer's backward pass.

    Source: `rotor`'s recursion with max in the place of the sum, and memory in that of time.

    >>> from sizing.training.rematerialization.chain import ChainLayer
    >>> smallest(LayerChain.of_equal(4, ChainLayer(1, 2, 1, 3))).peak_bytes
    7
    """
    segment = chain.num_layers if max_segment is None else max_segment
    return carry_out(chain, _LeastMemory(chain, max_segment=segment).find_steps())


class _LeastMemory:
    """Dynamic program of M(s, t): least bytes beside the input of s to bring layers s..t back."""

    def __init__(self, chain: LayerChain, *, max_segment: int) -> None:
        self._n, self._max_segment = chain.num_layers, max_segment
        self._x = np.asarray(chain.value_bytes)
        self._k = np.asarray([layer.kept_bytes for layer in chain.layers])
        self._needed = np.full((self._n, self._n), np.inf)
        self._choices = np.zeros((self._n, self._n), dtype=np.int64)

    def find_steps(self) -> list[ChainStep]:
        """Return the steps of least memory."""
        for s in reversed(range(self._n)):
            for t in range(s, self._n):
                if t - s < self._max_segment or t == self._n - 1:
                    self._solve(s, t)
        return list(self._walk(0, self._n - 1))

    def _solve(self, s: int, t: int) -> None:
        """Find the least memory and the next kept input of layers s..t; 0: all of s is kept."""
        x = self._x
        back = self._k[s] + x[s + 1] + max(x[t + 1], x[s])
        after = x[s + 1] + self._k[s] + self._needed[s + 1, t] if t > s else 0.0
        best, choice = max(back, after), 0
        if t > s:
            cuts = np.arange(s + 1, min(t, s + self._max_segment) + 1)
            before = np.where(cuts - 1 > s, x[cuts - 1], 0.0)
            transient = np.maximum.accumulate(before + x[cuts]) + x[t + 1]
            needed = np.maximum(transient, np.maximum(x[cuts] + self._needed[cuts, t], self._needed[s, cuts - 1]))
            least = int(np.argmin(needed))
            if needed[least] < best:
                best, choice = needed[least], int(cuts[least])
        self._needed[s, t], self._choices[s, t] = best, choice

    def _walk(self, s: int, t: int) -> Iterator[ChainStep]:
        cut = int(self._choices[s, t])
        if cut:
            yield from pass_forward(range(s, cut))
            yield from self._walk(cut, t)
            yield from self._walk(s, cut - 1)
            return
        yield ChainStep(s, "all")
        if t > s:
            yield from self._walk(s + 1, t)
        yield ChainStep(s, None)
