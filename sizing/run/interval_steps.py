"""Intervals between checkpoints that are given in steps, as training configs give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sizing.field_paths import value_at, whole_number_at
from sizing.units import PositiveSeconds

STEP_UNKNOWN = "default: how long {steps:,} steps take is not known; give training.step_seconds"
"""Why the default interval holds beside an interval in steps."""

_SECONDS = TypeAdapter[float](PositiveSeconds)


def interval_of_steps(document: Mapping[str, Any]) -> float | None:
    """Return the interval of a document that gives it in steps and gives the time of a step, in seconds.

    None where it does not, where it gives `interval_seconds` as well, or where a value is none that its field can have.
    Source: definition, steps x seconds of a step.

    >>> interval_of_steps({"checkpoint": {"interval_steps": 500}, "training": {"step_seconds": "12s"}})
    6000.0
    """
    steps = whole_number_at(document, "checkpoint.interval_steps")
    step_seconds = value_at(document, "training.step_seconds")
    if steps is None or step_seconds is None or value_at(document, "checkpoint.interval_seconds") is not None:
        return None
    try:
        return steps * _SECONDS.validate_python(step_seconds)
    except ValidationError:
        return None
