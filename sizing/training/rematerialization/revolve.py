"""Revolve: the least forward steps for a chain of like layers with so many kept inputs, by binomial numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sizing.errors import InvalidInput
from sizing.training.rematerialization.chain import Chain, Plan, Step, carried_out


def num_advances(num_links: int, num_inputs: int) -> int:
    """Forward steps beside those that a backward step follows: r l - C(c + r, c + 1).

    l layers, c inputs kept at a time, that of the chain among them; r, the least with C(c + r, c) >= l, is how often a
    layer goes forward at most.
    Source: Griewank and Walther 2000, Algorithm 799, ACM TOMS 26(1), equation 4.

    >>> num_advances(10, 3), num_advances(10, 10), num_advances(10, 1)
    (15, 9, 45)
    """
    r = next(r for r in range(num_links + 1) if math.comb(num_inputs + r, num_inputs) >= num_links)
    return r * num_links - math.comb(num_inputs + r, num_inputs + 1)


def revolve(chain: Chain, num_inputs: int) -> Plan:
    """The plan with so many kept inputs at a time; each layer keeps all that backward needs just before it goes back.

    Source: Griewank and Walther 2000, Algorithm 799, ACM TOMS 26(1), section 2.
    Raises InvalidInput for fewer inputs than one, that of the chain.

    >>> from sizing.training.rematerialization.chain import Link
    >>> revolve(Chain.of_equal(10, Link(1, 2, 1, 3)), 3).extra_time
    15.0
    """
    if num_inputs < 1:
        raise InvalidInput.of(
            "num_inputs", "must be at least 1, the input of the chain", value=num_inputs, remedy="give 1 or more"
        )
    return carried_out(chain, _steps(0, chain.num_links, num_inputs))


def _steps(first: int, past: int, num_inputs: int) -> Iterator[Step]:
    """Take layers first..past back, the input of the first kept already, as one of `num_inputs`."""
    if past - first == 1:
        yield from (Step(first, "all"), Step(first, None))
        return
    cut = first + _advance(past - first, num_inputs)
    yield Step(first, "input")
    yield from (Step(layer, "nothing") for layer in range(first + 1, cut))
    if num_inputs == 1:
        yield from (Step(cut, "all"), Step(cut, None))
    else:
        yield from _steps(cut, past, num_inputs - 1)
    yield from _steps(first, cut, num_inputs)


def _advance(length: int, num_inputs: int) -> int:
    """Layers to pass before the next input is kept: those that leave the least to do."""
    if num_inputs == 1:
        return length - 1
    return min(
        range(1, length),
        key=lambda cut: cut + num_advances(length - cut, num_inputs - 1) + num_advances(cut, num_inputs),
    )
