"""Saves that hold less than everything, and which of them must stay so that the newest can be read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class Chain:
    """Full saves and small ones after each.

    One of `full_every` saves is full; none where it is None. A save needs up to `num_needed` saves before it, or,
    where `needs_full_alone`, only the last full one.
    """

    full_bytes: int
    small_bytes: int
    full_every: int | None
    num_needed: int
    needs_full_alone: bool = False

    def kept_bytes(self, num_saves: Numbers) -> Numbers:
        """The max bytes of the newest saves together with those that the oldest of them needs.

        Of k saves one is full, F bytes, the others D. A save needs m < k before it, none before a full one. A window
        of n + m saves that begins with a full one holds ceil((n + m) / k) full ones, and none holds more. Where a delta
        needs the last full save alone, n saves of which ceil((n - 1) / k) are full, and one full save before them.
        Source: counting.

        >>> Chain(100, 10, full_every=4, num_needed=3).kept_bytes(2)  # a full save and 3 deltas, a full one in flight
        230
        >>> Chain(100, 10, full_every=16, num_needed=3).kept_bytes(2)  # experts in turn: a full save and 4 partial ones
        140
        >>> Chain(100, 10, full_every=4, num_needed=1, needs_full_alone=True).kept_bytes(2)
        210
        """
        if self.full_every is None:
            return (num_saves + self.num_needed) * self.small_bytes
        if self.needs_full_alone:
            inside = _ceil((num_saves - 1) / self.full_every)
            return (inside + 1) * self.full_bytes + (num_saves - inside) * self.small_bytes
        length = num_saves + self.num_needed
        num_full = _ceil(length / self.full_every)
        return num_full * self.full_bytes + (length - num_full) * self.small_bytes


def _ceil(value: Numbers) -> Numbers:
    return int(np.ceil(value)) if np.ndim(value) == 0 else np.ceil(value)
