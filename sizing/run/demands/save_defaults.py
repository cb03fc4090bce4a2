"""What is taken of a save where neither the scenario nor its storage says it: one row per version of a scenario."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.ranges import plausible_range
from sizing.units import percent_text


@dataclass(frozen=True, slots=True)
class SaveDefaults:
    """The defaults of a version.

    `copied_fraction`: rate of a copy from a GPU to its host over the line rate of the link; `copied_source` says why.
    `plans`: planning takes the time that the format says; else none.
    `loses_drains`: a failure ends every drain that `checkpoint.drain_survives` does not name; else drains go on through
    failures that a tier in front recovers.
    """

    copied_fraction: float
    copied_source: str
    plans: bool
    loses_drains: bool


_COPY = plausible_range("storage.profile.device_to_host_bytes_per_second")

AS_SHIPPED = SaveDefaults(
    copied_fraction=_COPY.midpoint,
    copied_source=f"{percent_text(_COPY.midpoint)} of the line rate of a GPU's link to its host: {_COPY.source}",
    plans=True,
    loses_drains=True,
)
"""Of today."""

BEFORE_GUESSES = SaveDefaults(
    copied_fraction=1.0,
    copied_source="line rate of a GPU's link to its host; real copies are slower",
    plans=False,
    loses_drains=False,
)
"""Of scenarios of schema version 1: line rate, no planning, drains that outlive failures."""


def save_defaults(schema_version: int) -> SaveDefaults:
    """The defaults of a scenario of that version."""
    return BEFORE_GUESSES if schema_version == 1 else AS_SHIPPED
