"""Report of a sweep, as a document: its rows, the places of the front, and the rows without an answer."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sizing.questions.sweep.figures import ObjectiveName
from sizing.strict_model import StrictModel


class RefusedRows(StrictModel):
    """Rows that have no answer: what they have in common, and why."""

    fields: dict[str, Any] = Field(description="Dotted paths and values that these rows have in common.")
    num_rows: int = Field(description="Rows without an answer for this reason.")
    problem: str = Field(description="Rule that they break, with the remedy.")


class SweepReport(StrictModel):
    """Rows by column: the fields that vary, then the figures."""

    columns: list[str] = Field(
        description="Dotted paths: first the fields that vary, then parallelism where it was left open, then the "
        "figures."
    )
    rows: list[list[Any]] = Field(description="Values by column. Null when unknown.")
    front: list[int] | None = Field(
        description="Places in rows of the Pareto front, which no other row beats in every objective. "
        "Null without objectives."
    )
    objectives: list[ObjectiveName] = Field(description="What the front is judged by.")
    num_rows: int = Field(description="Combinations that were asked for.")
    num_refused_rows: int = Field(description="Combinations that have no answer.")
    refused: list[RefusedRows] = Field(description="Why they have none, the first hundred reasons.")
    warnings: list[str] = Field(description="What a reader must know before believing the rows or the front.")
