"""The last value that still meets a condition, to the precision of a float."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

_SECTIONS = 256
"""Tried at once, as arrays cost little more than numbers."""
_PRECISION = 1e-13
"""Some hundred steps of a float: closer, sections of one bracket would be equal numbers."""
_HAIR = 2.0**-52
"""The step from 1 to the next float."""

Meets = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]]


def last_that_meets(meets: Meets, *, good: float, bad: float, num_sections: int = _SECTIONS) -> float:
    """The value nearest to `bad` that meets a condition, which holds at `good` and fails once on the way to `bad`.

    Each round cuts the bracket into sections of equal ratio and keeps the one with the edge. With 256 sections about
    nine rounds reach 1e-13. What is returned meets the condition also when asked alone.
    Source: bisection, with many sections at a time.

    >>> round(last_that_meets(lambda x: x * x >= 2.0, good=1e21, bad=1e-3), 9)
    1.414213562
    """
    while abs(bad / good - 1) > _PRECISION:
        tried = np.geomspace(good, bad, num_sections + 1)
        met = meets(tried)
        met[0], met[-1] = True, False
        failed = int(np.argmin(met))
        good, bad = float(tried[failed - 1]), float(tried[failed])
    step = _HAIR if good > bad else -_HAIR
    while not meets(np.array([good]))[0]:
        good *= 1 + step
        step *= 2
    return good
