"""The transfer model as fitted: log seconds and their slopes, for many parameter vectors at once.

    T_i = sum over serial terms of c_ij x_j + max over shared resources of sum of c_ij x_j,        x_j = exp(u_j)

over configurations i. A resource has one term, or several that add up: what moving the bytes takes and what contention
adds to it. A soft knee is a p-norm in place of the maximum. The coefficients c are the terms of `storage.terms` at a
rate of 1 or a time of 1 s, so x is the inverse of a rate, or a time. In log T every slope is the term's share of the
time, between 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    """Coefficients of the terms: a row per configuration, a column per term; which columns are of shared resources.

    `added_to` has, for each column, the column whose resource it is part of; without it each is a resource of its own.
    `squarings` k is the sharpness of the knee where one resource takes over from another: p = 2^k.
    """

    coefficients: Array
    is_shared: Mask
    added_to: tuple[int, ...] = ()
    squarings: int = SHARP

    @property
    def num_terms(self) -> int:
        """Columns."""
        return len(self.is_shared)

    def rows(self, chosen: Mask) -> Design:
        """The design of some of the configurations."""
        return replace(self, coefficients=self.coefficients[chosen])

    def columns(self, chosen: Mask) -> Design:
        """The design of some of the terms, each with the term that it is added to."""
        places = np.cumsum(chosen) - 1
        added_to = tuple(int(places[self.added_to[j]]) for j in np.flatnonzero(chosen)) if self.added_to else ()
        return replace(
            self, coefficients=self.coefficients[:, chosen], is_shared=self.is_shared[chosen], added_to=added_to
        )

    def resources(self) -> Array | None:
        """1 where a shared column (rows) is part of a resource (columns); None where each is one of its own."""
        if all(place == j for j, place in enumerate(self.added_to)):
            return None
        owners = np.array(self.added_to)[self.is_shared]
        return np.asarray(owners[:, None] == np.unique(owners), dtype=np.float64)


def log_seconds(design: Design, parameters: Array, *, squarings: int | None = None) -> tuple[Array, Array]:
    """Log T by configuration i, and its slopes by configuration and term.

    T_i = sum over serial j of c_ij x_j + (sum over shared resources r of (sum over j in r of c_ij x_j)^p)^(1/p),
    x_j = e^(u_j), p = 2^k. The slope d log T_i / d u_j is the share of T_i that the term takes.
    Args: `parameters` u, in the last axis one per term, -inf where the term is left out; other axes are kept.
    `squarings` k, where not that of the design. Returns two arrays, of shapes (..., configurations) and
    (..., configurations, terms).
    Source: `transfer.transfer_seconds`, with a p-norm for the maximum, which of n terms is at most n^(1/p) times too
    long, and has slopes everywhere.

    >>> design = Design(np.array([[1.0, 1.0, 3.0]]), np.array([True, True, False]))
    >>> logs, slopes = log_seconds(design, np.zeros(3))
    >>> round(float(np.exp(logs[0])) - 3.0, 4) == round(2 ** (1 / 64), 4), slopes[0].round(2).tolist()
    (True, [0.13, 0.13, 0.75])
    """
    squarings = design.squarings if squarings is None else squarings
    terms = design.coefficients * np.exp(parameters)[..., None, :]
    columns, resources = terms[..., design.is_shared], design.resources()
    shared = columns if resources is None else columns @ resources
    largest = shared.max(axis=-1, keepdims=True)
    powers = shared / largest
    for _ in range(squarings):
        powers = powers * powers
    total = powers.sum(axis=-1, keepdims=True)
    slowest = largest * total ** (0.5**squarings)
    seconds = terms[..., ~design.is_shared].sum(axis=-1, keepdims=True) + slowest
    slopes = terms / seconds
    shares = slowest / seconds * powers / total
    if resources is not None:
        shares = columns * ((shares / np.where(shared > 0, shared, 1.0)) @ resources.T)
    slopes[..., design.is_shared] = shares
    return np.log(seconds[..., 0]), slopes


def largest_shared(design: Design, parameters: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Seconds of the slowest shared resource by configuration, and its column: max over j of c_ij e^(u_j).

    Of a resource of several terms the column that the others are added to stands for all.

    Args: `parameters` u, one per term.
    Source: `transfer.transfer_seconds`.

    >>> design = Design(np.array([[1.0, 2.0, 9.0]]), np.array([True, True, False]))
    >>> seconds, column = largest_shared(design, np.zeros(3))
    >>> seconds.tolist(), column.tolist()
    ([2.0], [1])
    """
    terms = np.where(design.is_shared, design.coefficients * np.exp(parameters), 0.0)
    for j, owner in enumerate(design.added_to):
        if owner != j and design.is_shared[j]:
            terms[:, owner] += terms[:, j]
            terms[:, j] = 0.0
    terms = np.where(design.is_shared, terms, -1.0)
    column = terms.argmax(axis=-1)
    return np.take_along_axis(terms, column[:, None], axis=-1)[:, 0], column
