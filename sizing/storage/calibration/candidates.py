"""The terms that a fit may use for writes and for reads: which field of the profile each one gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sizing.storage.calibration.roofline import Array, Design
from sizing.storage.terms import (
    Demand,
    Direction,
    Resource,
    files_field,
    once_terms,
    planning_field,
    serial_terms,
    shared_terms,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A term of the transfer model: the resource, its field in the profile, and what the two are."""

    resource: Resource
    field: str
    is_shared: bool

    @property
    def is_rate(self) -> bool:
        """Whether the field holds a rate, of which the parameter is the inverse, or a time."""
        return self.field.endswith("per_second")

    def value(self, parameters: Array) -> Array:
        """The field's value for log parameters u: exp(-u) of a rate, exp(u) of a time."""
        return np.exp(-parameters if self.is_rate else parameters)


def candidates(direction: Direction) -> tuple[Candidate, ...]:
    """Every term that measurements may show, the shared ones first.

    Of two that the data cannot tell apart the earlier stands for both.
    """
    return (
        Candidate("file-system", f"{direction}_bytes_per_second", is_shared=True),
        Candidate("node", f"node_{direction}_bytes_per_second", is_shared=True),
        Candidate("writer", f"writer_{direction}_bytes_per_second", is_shared=True),
        Candidate("fixed", f"fixed_{direction}_seconds", is_shared=False),
        Candidate("per-file", f"file_{direction}_seconds", is_shared=False),
        Candidate("metadata", files_field(direction), is_shared=False),
        Candidate("planning", planning_field(direction), is_shared=False),
    )


def design_of(demand: Demand, direction: Direction) -> Design:
    """The coefficients of every candidate for demands as arrays: its seconds at a rate of 1 or a time of 1 s."""
    columns = [
        np.broadcast_to(_coefficient(c, demand, direction), np.shape(demand.total_bytes)) for c in candidates(direction)
    ]
    return Design(np.stack(columns, axis=-1).astype(np.float64), np.array([c.is_shared for c in candidates(direction)]))


def _coefficient(candidate: Candidate, demand: Demand, direction: Direction) -> Array:
    unit = {candidate.field: 1.0}
    terms = (
        shared_terms(unit, demand, direction=direction)
        | serial_terms(unit, demand, direction=direction)
        | once_terms(unit, direction=direction)
    )
    return np.asarray(terms.get(candidate.resource, 0.0), dtype=np.float64)
