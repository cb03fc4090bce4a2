"""A document for programs that show it: the same words, tables and charts, as JSON. Nothing is drawn."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.reports.document import Document
from sizing.reports.gpu_grid import GpuGrid
from sizing.summary import FirstScreen
from sizing.version import __version__

Standing = Literal["misses", "weak", "meets", "none"]
"""How a verdict stands out."""


class _Shown(BaseModel):
    """What is made from the named tuples of `sizing.summary`, field by field."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class ShownFigure(_Shown):
    """One figure in words."""

    label: str = Field(description="Quantity that the figure is of, such as the write time.")
    figure: str = Field(description="The figure with its unit; empty where there is none.")
    meaning: str = Field(description="Conditions under which the figure holds, and what limits it.")


class ShownSection(_Shown):
    """Figures that answer one question."""

    title: str = Field(description="The question in a few words.")
    rows: list[ShownFigure] = Field(description="The figures, in the order in which people ask.")


class ShownTable(_Shown):
    """A table of text."""

    title: str = Field(description="What it holds; empty where the headline says so.")
    columns: list[str] = Field(description="A heading for each column; empty where there are none.")
    rows: list[list[str]] = Field(description="Text of each cell, in the order of the columns.")
    stressed: frozenset[int] = Field(description="Rows that stand out, counted from 0.")
    is_figures: bool = Field(description="Whether all cells are figures, which stand to the right.")


class ShownSlider(_Shown):
    """An input and the values that it is dragged through."""

    field: str = Field(description="Path of the input in the scenario.")
    steps: list[str] = Field(description="Values as they are typed, ascending.")
    position: int | None = Field(
        description="Number of the step nearest to the value that the answer holds for, counted from 0. Null where the "
        "scenario gives none."
    )


class Presentation(_Shown):
    """An answer as people read it. A page, a terminal and a PDF show the same."""

    kind: str = Field(description="What sort of answer it is.")
    title: str = Field(description="What was asked about.")
    headline: str = Field(description="What was asked, in a line.")
    verdict: str = Field(description="Whether the targets are met; empty where none was asked for.")
    standing: Standing = Field(description="How the verdict stands out: a target is missed, weakly met, met, or none.")
    remedies: list[str] = Field(description="What would meet a target that is missed.")
    figures: list[ShownFigure] = Field(description="The figures that stand first.")
    mark_meaning: str = Field(description="What the mark of a figure means; empty where none has one.")
    guesses: list[str] = Field(description="The guesses that move the answer most, as sentences.")
    warnings: list[str] = Field(description="What a reader must know before believing the figures.")
    sections: list[ShownSection] = Field(description="All figures; the first section is what the verdict rests on.")
    charts: list[dict[str, Any]] = Field(description="Charts as Vega-Lite specifications with their data.")
    gpus: GpuGrid | None = Field(
        description="Which GPUs write how much, one cell each. Null where none are asked about, or too many to draw."
    )
    tables: list[ShownTable] = Field(description="What the answer rests on.")
    remarks: list[str] = Field(description="What is said below the tables.")
    question: str = Field(description="The question as a YAML file; empty where it is too long to read.")
    sliders: list[ShownSlider] = Field(description="Inputs to try by dragging; empty where none are known.")
    told_fields: dict[str, str] = Field(
        description="Fields of a scenario that the answer tells, by dotted path, with values as they are typed; empty "
        "where it tells none."
    )
    version: str = Field(description="Version of checkpoint-sizing that answered.")


def presentation_of(document: Document) -> Presentation:
    """The document as data, word for word."""
    first = document.first_page
    return Presentation(
        kind=document.kind,
        title=document.title,
        headline=first.headline,
        verdict=first.verdict,
        standing=_standing(first),
        remedies=list(first.remedies),
        figures=[ShownFigure.model_validate(row) for row in first.figures],
        mark_meaning=first.mark_meaning,
        guesses=list(first.guesses),
        warnings=list(first.warnings),
        sections=[ShownSection.model_validate(section) for section in document.sections],
        charts=list(document.charts),
        gpus=document.gpus,
        tables=[ShownTable.model_validate(grid) for grid in document.grids],
        remarks=list(document.remarks),
        question=document.question,
        sliders=[ShownSlider.model_validate(slider) for slider in document.sliders],
        told_fields=dict(document.told_fields),
        version=__version__,
    )


def _standing(first: FirstScreen) -> Standing:
    if not first.verdict:
        return "none"
    return "misses" if first.misses else "weak" if first.is_weak else "meets"
