"""What the capacity to buy is made of, and which part of the retention decides it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.run.retention import Capacity, Retention
from sizing.units import bytes_text, percent_text

CapacityCause = Literal[
    "keep_last", "keep_best", "in-flight", "keep_weights_every", "free_fraction", "redundancy_fraction"
]

_WORDS: dict[CapacityCause, str] = {
    "keep_last": "the last checkpoints kept whole",
    "keep_best": "the best checkpoints kept whole",
    "in-flight": "the checkpoint being written",
    "keep_weights_every": "the kept weights",
    "free_fraction": "what stays free",
    "redundancy_fraction": "the redundancy of the drives",
}


class CapacityPart(BaseModel):
    """What one field of `retention`, or the checkpoint being written, asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cause: CapacityCause = Field(
        description="Field of retention that asks for it; in-flight is the checkpoint being written."
    )
    bytes: float = Field(description="Bytes of drives that it asks for.")
    fraction: float = Field(description="Fraction of raw_bytes that it makes.")


class CapacityNeed(BaseModel):
    """The min capacity for what is kept, and what makes it up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    capacity_bytes: int = Field(description="Bytes of all that is kept and being written.")
    usable_bytes: float = Field(description="Size of the file system in bytes, with the fraction that stays free.")
    raw_bytes: float = Field(description="Bytes of drives to buy, with redundancy.")
    parts: list[CapacityPart] = Field(description="What makes up raw_bytes, part by part.")
    binds: CapacityCause = Field(description="Largest of the parts.")
    reason: str = Field(description="The largest part in words, with its share of the drives.")


def capacity_need(capacity: Capacity, retention: Retention) -> CapacityNeed:
    """The parts of a capacity, by what asks for them; of equal ones the first binds.

    >>> from sizing.run.evaluation import evaluate
    >>> from sizing.sized import sized
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> asked = scenario_from(REFERENCE_SCENARIO | {"retention": {"keep_last": 3, "redundancy_fraction": 0.25}})
    >>> found = capacity_need(evaluate(sized(asked).demands, asked.run_inputs).report.capacity, asked.retention)
    >>> found.binds, [(part.cause, round(part.fraction, 6)) for part in found.parts]
    ('keep_last', [('keep_last', 0.6), ('in-flight', 0.2), ('redundancy_fraction', 0.2)])
    """
    raw = capacity.raw_bytes
    parts = [CapacityPart(cause=cause, bytes=size, fraction=size / raw) for cause, size in _parts(capacity, retention)]
    largest = max(parts, key=lambda part: part.bytes)
    return CapacityNeed(
        capacity_bytes=capacity.capacity_bytes,
        usable_bytes=capacity.usable_bytes,
        raw_bytes=raw,
        parts=parts,
        binds=largest.cause,
        reason=f"{_WORDS[largest.cause]}: {bytes_text(largest.bytes)}, {percent_text(largest.fraction)} of the drives",
    )


def _parts(capacity: Capacity, retention: Retention) -> Iterator[tuple[CapacityCause, float]]:
    each = capacity.checkpoints_bytes / capacity.num_checkpoints
    parts: dict[CapacityCause, float] = {
        "keep_last": retention.keep_last * each,
        "keep_best": retention.keep_best * each,
        "in-flight": each,
        "keep_weights_every": capacity.kept_weights_bytes,
        "free_fraction": capacity.usable_bytes - capacity.capacity_bytes,
        "redundancy_fraction": capacity.raw_bytes - capacity.usable_bytes,
    }
    return ((cause, size) for cause, size in parts.items() if size)
