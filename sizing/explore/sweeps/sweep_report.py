"""The answer of a sweep, as a document."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sizing.explore.sweeps.figures import ObjectiveName


class Refused(BaseModel):
    """Rows that have no answer: what they have in common, and why."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fields: dict[str, Any]
    num_rows: int
    problem: str


class SweepReport(BaseModel):
    """Rows by column: the fields that vary, then the figures. None is what is not known.

    `front` holds the places in `rows` of those that no other row beats in every objective; None without objectives.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: list[str]
    rows: list[list[Any]]
    front: list[int] | None
    objectives: list[ObjectiveName]
    num_rows: int = Field(description="that were asked for")
    num_refused_rows: int
    refused: list[Refused] = Field(description="the first hundred")
    warnings: list[str]
