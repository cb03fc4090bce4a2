"""Rotor: the plan of least time within a memory for a chain of unlike layers, by a dynamic program."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from sizing.errors import InvalidInput
from sizing.training.rematerialization.chain import Chain, Plan, Step, carried_out, kept_all
from sizing.units import decimal_bytes_text

MIN_SLOTS, MAX_SLOTS = 500, 20_000
"""Into which the memory is cut, sizes rounded up to whole ones: 500 in Beaumont et al. 2019, section 5.1, where layers
are many. Few layers leave time for more, and more lose less by rounding."""

MAX_WORK = 1e8
"""Slots x layers^3 / 6, which is what the program goes through: a second or so."""

MAX_LINKS = 256
"""The program takes time with their cube. Deeper models take several layers as one."""

Times = NDArray[np.float64]


class _Program:
    """C(s, t, m): least time to bring layers s..t back with m slots beside the input of s, which is there.

    C(s, t, m) is the less of f_s + C(s + 1, t, m - x_{s+1} - k_s) + b_s, which keeps all of s, and over s' of
    f_s + ... + f_{s'-1} + C(s', t, m - x_{s'}) + C(s, s' - 1, m), which keeps the input of s' and comes back to s.
    """

    def __init__(self, chain: Chain, budget_bytes: float, *, num_slots: int, max_segment: int) -> None:
        self._n, self._max_segment = chain.num_links, max_segment
        self._slot_bytes = budget_bytes / num_slots
        self._values = [self._slots(each) for each in chain.value_bytes]
        outputs = zip(chain.value_bytes[1:], chain.links, strict=True)
        self._left = [self._slots(output + link.kept_bytes) for output, link in outputs]
        self._forward = [link.forward_time for link in chain.links]
        self._backward = [link.backward_time for link in chain.links]
        self._room = np.arange(num_slots + 1)
        self._first = num_slots - self._values[0]
        self._times: dict[tuple[int, int], Times] = {}
        self._choices: dict[tuple[int, int], NDArray[np.int64]] = {}

    def steps(self) -> list[Step] | None:
        """The steps of least time; None where nothing fits."""
        if self._first < 0:
            return None
        for length in range(self._n):
            for first in range(self._n - length):
                last = first + length
                if length < self._max_segment or last == self._n - 1:
                    self._solve(first, last)
        if math.isinf(self._times[0, self._n - 1][self._first]):
            return None
        return list(self._told(0, self._n - 1, self._first))

    def _slots(self, num_bytes: float) -> int:
        """Whole slots; a hair of rounding is no slot more."""
        return math.ceil(num_bytes / self._slot_bytes - 1e-9)

    def _solve(self, s: int, t: int) -> None:
        best = self._all_kept(s, t)
        choice = np.zeros(len(best), dtype=np.int64)
        run, transient = 0.0, 0
        for cut in range(s + 1, min(t, s + self._max_segment) + 1):
            run += self._forward[cut - 1]
            before = self._values[cut - 1] if cut - 1 > s else 0
            transient = max(transient, before + self._values[cut])
            found = run + self._shifted(self._times[cut, t], self._values[cut]) + self._times[s, cut - 1]
            found[self._room < transient + self._values[t + 1]] = np.inf
            better = found < best
            best, choice = np.where(better, found, best), np.where(better, cut, choice)
        self._times[s, t], self._choices[s, t] = best, choice

    def _all_kept(self, s: int, t: int) -> Times:
        own: float = self._forward[s] + self._backward[s]
        if s == t:
            best = np.full(len(self._room), own, dtype=np.float64)
        else:
            best = own + self._shifted(self._times[s + 1, t], self._left[s])
        needed = self._left[s] + max(self._values[t + 1], self._values[s])
        best[self._room < needed] = np.inf
        return best

    @staticmethod
    def _shifted(times: Times, slots: int) -> Times:
        """With so many slots less."""
        found = np.full(len(times), np.inf)
        if slots < len(times):
            found[slots:] = times[: len(times) - slots]
        return found

    def _told(self, s: int, t: int, room: int) -> Iterator[Step]:
        cut = int(self._choices[s, t][room])
        if cut:
            yield from _to(s, cut)
            yield from self._told(cut, t, room - self._values[cut])
            yield from self._told(s, cut - 1, room)
            return
        yield Step(s, "all")
        if t > s:
            yield from self._told(s + 1, t, room - self._left[s])
        yield Step(s, None)


def rotor(chain: Chain, budget_bytes: float, *, num_slots: int | None = None, max_segment: int | None = None) -> Plan:
    """The plan of least time whose peak is within a budget, of those that keep what they keep until it goes back.

    Sizes are rounded up to 1/num_slots of the budget. `max_segment`: layers between two kept inputs; with 1 each layer
    is either kept or computed again from its own input, as training frameworks do it.
    Source: Beaumont et al. 2019, arXiv 1911.13214, theorem 1; Gusak et al. 2022, arXiv 2202.10435, section 3.1.
    Raises InvalidInput for a budget below the least that is possible, which it names, or too many layers.

    >>> from sizing.training.rematerialization.chain import Link
    >>> rotor(Chain.of_equal(4, Link(1, 2, 1, 3)), 12, num_slots=12).extra_time
    2.0
    """
    _check(chain, budget_bytes)
    everything = carried_out(chain, kept_all(range(chain.num_links)))
    if everything.peak_bytes <= budget_bytes:
        return everything
    segment = chain.num_links if max_segment is None else max_segment
    least = smallest(chain, max_segment=segment)
    if least.peak_bytes > budget_bytes:
        raise InvalidInput.of(
            "budget_bytes",
            f"must be at least {decimal_bytes_text(round(least.peak_bytes))}, the least that any plan of it needs",
            value=budget_bytes,
            remedy="give more memory or cut the batch",
        )
    slots = num_slots or _num_slots(chain.num_links, segment)
    steps = _Program(chain, budget_bytes, num_slots=slots, max_segment=segment).steps()
    return least if steps is None else carried_out(chain, steps)


def smallest(chain: Chain, *, max_segment: int | None = None) -> Plan:
    """A plan of the least peak, to the byte, of those that keep what they keep until it goes back.

    Source: `rotor`'s recursion with max in the place of the sum, and memory in that of time.

    >>> from sizing.training.rematerialization.chain import Link
    >>> smallest(Chain.of_equal(4, Link(1, 2, 1, 3))).peak_bytes
    7
    """
    segment = chain.num_links if max_segment is None else max_segment
    return carried_out(chain, _Smallest(chain, max_segment=segment).steps())


class _Smallest:
    """M(s, t): least bytes beside the input of s to bring layers s..t back."""

    def __init__(self, chain: Chain, *, max_segment: int) -> None:
        self._n, self._max_segment = chain.num_links, max_segment
        self._x = np.asarray(chain.value_bytes)
        self._k = np.asarray([link.kept_bytes for link in chain.links])
        self._needed = np.full((self._n, self._n), np.inf)
        self._choices = np.zeros((self._n, self._n), dtype=np.int64)

    def steps(self) -> list[Step]:
        for s in reversed(range(self._n)):
            for t in range(s, self._n):
                if t - s < self._max_segment or t == self._n - 1:
                    self._solve(s, t)
        return list(self._told(0, self._n - 1))

    def _solve(self, s: int, t: int) -> None:
        x = self._x
        back = self._k[s] + x[s + 1] + max(x[t + 1], x[s])
        after = x[s + 1] + self._k[s] + self._needed[s + 1, t] if t > s else 0.0
        best, choice = max(back, after), 0
        if t > s:
            cuts = np.arange(s + 1, min(t, s + self._max_segment) + 1)
            before = np.where(cuts - 1 > s, x[cuts - 1], 0.0)
            transient = np.maximum.accumulate(before + x[cuts]) + x[t + 1]
            found = np.maximum(transient, np.maximum(x[cuts] + self._needed[cuts, t], self._needed[s, cuts - 1]))
            least = int(np.argmin(found))
            if found[least] < best:
                best, choice = found[least], int(cuts[least])
        self._needed[s, t], self._choices[s, t] = best, choice

    def _told(self, s: int, t: int) -> Iterator[Step]:
        cut = int(self._choices[s, t])
        if cut:
            yield from _to(s, cut)
            yield from self._told(cut, t)
            yield from self._told(s, cut - 1)
            return
        yield Step(s, "all")
        if t > s:
            yield from self._told(s + 1, t)
        yield Step(s, None)


def _to(s: int, cut: int) -> Iterator[Step]:
    """Forward to a layer, of which the input is to be kept."""
    yield Step(s, "input")
    yield from (Step(layer, "nothing") for layer in range(s + 1, cut))


def _num_slots(num_links: int, max_segment: int) -> int:
    """As many as there is time for."""
    triples = num_links**2 * min(num_links, 3 * max_segment) / 6
    return int(min(max(MAX_WORK / triples, MIN_SLOTS), MAX_SLOTS))


def _check(chain: Chain, budget_bytes: float) -> None:
    if not budget_bytes > 0:
        raise InvalidInput.of(
            "budget_bytes", "must be above 0", value=budget_bytes, remedy="give the memory that activations may take"
        )
    if chain.num_links > MAX_LINKS:
        raise InvalidInput.of(
            "chain",
            f"must have at most {MAX_LINKS} layers",
            value=chain.num_links,
            remedy="take several layers as one",
        )
