"""sqrt(n): the chain in segments of equal length, of which only the inputs are kept until they are computed again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

from sizing.training.rematerialization.chain import Chain, Plan, Step, carried_out, kept_all


def segmented(chain: Chain, num_segments: int) -> Plan:
    """Segments as equal as they can be; each goes forward once, and again, but for the last one, to go back.

    Source: Chen et al. 2016, arXiv 1604.06174, algorithm 1.

    >>> from sizing.training.rematerialization.chain import Link
    >>> segmented(Chain.of_equal(9, Link(1, 2, 1, 3)), 3).extra_time
    6.0
    """
    n = chain.num_links
    edges = [number * n // num_segments for number in range(num_segments + 1)]
    segments = [range(*pair) for pair in pairwise(edges)]
    forward = [step for segment in segments[:-1] for step in _once(segment)]
    back = [step for segment in reversed(segments) for step in kept_all(segment)]
    return carried_out(chain, [*forward, *back])


def sqrt_plan(chain: Chain) -> Plan:
    """Segments of about sqrt(n) layers, as many of them: memory grows with the root of the layers for one more forward.

    Source: Chen et al. 2016, arXiv 1604.06174, section 4.2.

    >>> from sizing.training.rematerialization.chain import Link
    >>> sqrt_plan(Chain.of_equal(16, Link(1, 2, 1, 3))).extra_time
    12.0
    """
    return segmented(chain, max(1, math.isqrt(chain.num_links)))


def _once(segment: range) -> Iterator[Step]:
    yield Step(segment.start, "input")
    yield from (Step(layer, "nothing") for layer in segment[1:])
