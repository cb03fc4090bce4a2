"""The terms that a fit may use for writes and for reads: which field of the profile each one gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.calibration.roofline import Array, Design
from sizing.storage.rates import Direction, RateField, rates_of
from sizing.storage.terms import Demand, Resource, once_terms, serial_terms, shared_terms
from sizing.storage.transfer import beyond_cache_bytes


@dataclass(frozen=True, slots=True)
class Candidate:
    """A term of the transfer model: the resource, its field in the profile, and what the two are."""

    resource: Resource
    field: RateField
    is_shared: bool
    is_fraction: bool = False
    """Of the file system's time of a byte, to which it adds."""

    @property
    def is_rate(self) -> bool:
        """Whether the field holds a rate, of which the parameter is the inverse, or a time."""
        return self.field.endswith("per_second")

    def value(self, parameters: Array) -> Array:
        """The field's value for log parameters u: exp(-u) of a rate, exp(u) of a time."""
        return np.exp(-parameters if self.is_rate else parameters)


_CANDIDATES: dict[Direction, tuple[Candidate, ...]] = {
    "write": (
        Candidate("file-system", "write_bytes_per_second", is_shared=True),
        Candidate("node", "node_write_bytes_per_second", is_shared=True),
        Candidate("writer", "writer_write_bytes_per_second", is_shared=True),
        Candidate("stripe", "stripe_write_bytes_per_second", is_shared=True),
        Candidate("fixed", "fixed_write_seconds", is_shared=False),
        Candidate("per-file", "file_write_seconds", is_shared=False),
        Candidate("metadata", "files_per_second", is_shared=False),
        Candidate("planning", "planning_seconds_per_rank", is_shared=False),
    ),
    "read": (
        Candidate("file-system", "read_bytes_per_second", is_shared=True),
        Candidate("node", "node_read_bytes_per_second", is_shared=True),
        Candidate("writer", "writer_read_bytes_per_second", is_shared=True),
        Candidate("stripe", "stripe_read_bytes_per_second", is_shared=True),
        Candidate("fixed", "fixed_read_seconds", is_shared=False),
        Candidate("per-file", "file_read_seconds", is_shared=False),
        Candidate("metadata", "read_files_per_second", is_shared=False),
        Candidate("planning", "read_planning_seconds_per_rank", is_shared=False),
    ),
}


_CONTENTIONS: dict[Direction, tuple[Candidate, ...]] = {
    "write": (
        Candidate("contention", "writer_write_contention_fraction", is_shared=True, is_fraction=True),
        Candidate("contention", "node_write_contention_fraction", is_shared=True, is_fraction=True),
    ),
    "read": (
        Candidate("contention", "writer_read_contention_fraction", is_shared=True, is_fraction=True),
        Candidate("contention", "node_read_contention_fraction", is_shared=True, is_fraction=True),
    ),
}

_CACHES: dict[Direction, Candidate] = {
    "write": Candidate("write-back-cache", "beyond_cache_write_bytes_per_second", is_shared=True),
    "read": Candidate("write-back-cache", "beyond_cache_read_bytes_per_second", is_shared=True),
}

FILE_SYSTEM = 0
"""The column of the file system's rate, to which contention adds."""


def candidates(direction: Direction) -> tuple[Candidate, ...]:
    """Every term of the transfer model that measurements may show, the shared ones first.

    Of two that the data cannot tell apart the earlier stands for both.
    """
    return _CANDIDATES[direction]


def all_candidates(direction: Direction) -> tuple[Candidate, ...]:
    """The same, and the terms that are tried only where those leave something unexplained."""
    return *_CANDIDATES[direction], *_CONTENTIONS[direction], _CACHES[direction]


def figures_of(names: Sequence[Candidate], parameters: Array) -> dict[RateField, Array]:
    """The value of every field for log parameters in the last axis, without those left out at -inf.

    Contention is a fraction of the file system's time.

    >>> names = all_candidates("write")
    >>> parameters = np.append(np.log([1 / 40e9, *[1.0] * 7, 0.02 / 40e9]), [-np.inf, -np.inf])
    >>> figures = figures_of(names, parameters)
    >>> round(float(figures["writer_write_contention_fraction"]), 6), "node_write_contention_fraction" in figures
    (0.02, False)
    """
    return {
        name.field: np.exp(parameters[..., column] - parameters[..., FILE_SYSTEM])
        if name.is_fraction
        else name.value(parameters[..., column])
        for column, name in enumerate(names)
        if np.isfinite(parameters[..., column]).all()
    }


def design_of(demand: Demand, direction: Direction) -> Design:
    """The coefficients of every candidate for demands as arrays: its seconds at a rate of 1 or a time of 1 s."""
    columns = [
        np.broadcast_to(_coefficient(c, demand, direction), np.shape(demand.total_bytes)) for c in candidates(direction)
    ]
    return Design(np.stack(columns, axis=-1).astype(np.float64), np.array([c.is_shared for c in candidates(direction)]))


def contention_columns(demand: Demand) -> Array:
    """The coefficients of contention: what each further writer, and each further node, adds to the time of a byte.

    c = B (n - 1) of n writers, and of n nodes.
    Source: `transfer.contended_bytes`, whose terms they are.

    >>> contention_columns(Demand(np.array([2.0]), np.array([4.0]), np.array([2.0]), 4)).tolist()
    [[6.0, 2.0]]
    """
    units = np.stack(np.broadcast_arrays(demand.num_streams, demand.num_nodes), axis=-1)
    return np.asarray(np.asarray(demand.total_bytes)[:, None] * (units - 1.0), dtype=np.float64)


def cache_column(demand: Demand, cache_bytes: float) -> Array:
    """The coefficients of the rate beyond a write-back cache of that size: the bytes that it does not take.

    Source: `transfer.beyond_cache_bytes`.

    >>> cache_column(Demand(np.array([2.0, 5.0]), 1, 1, 1), 4.0).tolist()
    [0.0, 1.0]
    """
    return np.asarray(beyond_cache_bytes(demand.total_bytes, cache_bytes=cache_bytes), dtype=np.float64)


def _coefficient(candidate: Candidate, demand: Demand, direction: Direction) -> Array:
    unit = rates_of({candidate.field: 1.0}, direction)
    terms = shared_terms(unit, demand) | serial_terms(unit, demand) | once_terms(unit)
    return np.asarray(terms.get(candidate.resource, 0.0), dtype=np.float64)
