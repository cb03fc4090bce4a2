"""The transfer model as fitted: log seconds and their slopes, for many parameter vectors at once.

    T_i = sum over serial terms of c_ij x_j + max over shared terms of c_ij x_j,        x_j = exp(u_j)

over configurations i. The coefficients c are the terms of `storage.terms` at a rate of 1 or a time of 1 s, so x is
the inverse of a rate, or a time. In log T every slope is the term's share of the time, between 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

SHARP = 6
"""Squarings of the smooth maximum that stands for the maximum: power 64, 1.1 % above it where two terms are equal."""

SMOOTH = 3
"""Squarings with which a fit begins: power 8."""


@dataclass(frozen=True, slots=True)
class Design:
    """Coefficients of the terms: a row per configuration, a column per term; which columns are shared resources."""

    coefficients: Array
    is_shared: Mask

    @property
    def num_terms(self) -> int:
        """Columns."""
        return len(self.is_shared)

    def rows(self, chosen: Mask) -> Design:
        """The design of some of the configurations."""
        return Design(self.coefficients[chosen], self.is_shared)


def log_seconds(design: Design, parameters: Array, *, squarings: int = SHARP) -> tuple[Array, Array]:
    """Log T by configuration i, and its slopes by configuration and term.

    T_i = sum over serial j of c_ij x_j + (sum over shared j of (c_ij x_j)^p)^(1/p), x_j = e^(u_j), p = 2^k. The slope
    d log T_i / d u_j is the share of T_i that the term takes.
    Args: `parameters` u, in the last axis one per term, -inf where the term is left out; other axes are kept.
    `squarings` k. Returns two arrays, of shapes (..., configurations) and (..., configurations, terms).
    Source: `transfer.transfer_seconds`, with a p-norm for the maximum, which of n terms is at most n^(1/p) times too
    long, and has slopes everywhere.

    >>> design = Design(np.array([[1.0, 1.0, 3.0]]), np.array([True, True, False]))
    >>> logs, slopes = log_seconds(design, np.zeros(3))
    >>> round(float(np.exp(logs[0])) - 3.0, 4) == round(2 ** (1 / 64), 4), slopes[0].round(2).tolist()
    (True, [0.13, 0.13, 0.75])
    """
    terms = design.coefficients * np.exp(parameters)[..., None, :]
    shared = terms[..., design.is_shared]
    largest = shared.max(axis=-1, keepdims=True)
    powers = shared / largest
    for _ in range(squarings):
        powers = powers * powers
    total = powers.sum(axis=-1, keepdims=True)
    slowest = largest * total ** (0.5**squarings)
    seconds = terms[..., ~design.is_shared].sum(axis=-1, keepdims=True) + slowest
    slopes = terms / seconds
    slopes[..., design.is_shared] = slowest / seconds * powers / total
    return np.log(seconds[..., 0]), slopes


def largest_shared(design: Design, parameters: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Seconds of the slowest shared resource by configuration, max over j of c_ij e^(u_j), and its column.

    Args: `parameters` u, one per term.
    Source: `transfer.transfer_seconds`.

    >>> design = Design(np.array([[1.0, 2.0, 9.0]]), np.array([True, True, False]))
    >>> seconds, column = largest_shared(design, np.zeros(3))
    >>> seconds.tolist(), column.tolist()
    ([2.0], [1])
    """
    terms = np.where(design.is_shared, design.coefficients * np.exp(parameters), -1.0)
    column = terms.argmax(axis=-1)
    return np.take_along_axis(terms, column[:, None], axis=-1)[:, 0], column
