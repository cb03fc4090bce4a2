"""The terms that a fit may use for writes and for reads: which field of the profile each one gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizing.storage.calibration.roofline import Array, Design
from sizing.storage.rates import Direction, RateField, rates_of
from sizing.storage.terms import Demand, Resource, once_terms, serial_terms, shared_terms


@dataclass(frozen=True, slots=True)
class Candidate:
    """A term of the transfer model: the resource, its field in the profile, and what the two are."""

    resource: Resource
    field: RateField
    is_shared: bool

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
        Candidate("fixed", "fixed_write_seconds", is_shared=False),
        Candidate("per-file", "file_write_seconds", is_shared=False),
        Candidate("metadata", "files_per_second", is_shared=False),
        Candidate("planning", "planning_seconds_per_rank", is_shared=False),
    ),
    "read": (
        Candidate("file-system", "read_bytes_per_second", is_shared=True),
        Candidate("node", "node_read_bytes_per_second", is_shared=True),
        Candidate("writer", "writer_read_bytes_per_second", is_shared=True),
        Candidate("fixed", "fixed_read_seconds", is_shared=False),
        Candidate("per-file", "file_read_seconds", is_shared=False),
        Candidate("metadata", "read_files_per_second", is_shared=False),
        Candidate("planning", "read_planning_seconds_per_rank", is_shared=False),
    ),
}


def candidates(direction: Direction) -> tuple[Candidate, ...]:
    """Every term that measurements may show, the shared ones first.

    Of two that the data cannot tell apart the earlier stands for both.
    """
    return _CANDIDATES[direction]


def design_of(demand: Demand, direction: Direction) -> Design:
    """The coefficients of every candidate for demands as arrays: its seconds at a rate of 1 or a time of 1 s."""
    columns = [
        np.broadcast_to(_coefficient(c, demand, direction), np.shape(demand.total_bytes)) for c in candidates(direction)
    ]
    return Design(np.stack(columns, axis=-1).astype(np.float64), np.array([c.is_shared for c in candidates(direction)]))


def _coefficient(candidate: Candidate, demand: Demand, direction: Direction) -> Array:
    unit = rates_of({candidate.field: 1.0}, direction)
    terms = shared_terms(unit, demand) | serial_terms(unit, demand) | once_terms(unit)
    return np.asarray(terms.get(candidate.resource, 0.0), dtype=np.float64)
