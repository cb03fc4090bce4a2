"""An answer as a document for every medium: first page, charts, tables, and the question as a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import yaml
from pydantic import ConfigDict, Field

from sizing.present.chart import Spec
from sizing.present.gpu_grid import GpuGrid
from sizing.present.rows import FirstScreen, Grid, Section, Summary
from sizing.present.sliders import Slider
from sizing.provenance import Assumption
from sizing.strict_model import StrictModel
from sizing.version import __version__

_MAX_LINES = 150
"""Two pages; a longer question holds a calibration or a config.json, which is a file of its own."""


class Briefing(NamedTuple):
    """A page for those who decide and do not size: what to do, what it costs, and what would change that."""

    recommendation: str
    reasons: tuple[str, ...]
    """Sentences below it."""
    facts: tuple[tuple[str, str], ...]
    """What it is about, each with its label; the date is that of the document."""
    grids: tuple[Grid, ...]
    caveat: str


@dataclass(frozen=True, slots=True)
class Document:
    """One answer, with all that HTML, PDF, terminal and REST show of it."""

    kind: str
    """What sort of answer it is, as a line above the title."""
    title: str
    first_page: FirstScreen
    charts: tuple[Spec, ...]
    sections: tuple[Section, ...]
    """The first of them, what the verdict rests on, stands before the charts."""
    grids: tuple[Grid, ...]
    remarks: tuple[str, ...] = ()
    question: str = ""
    """The question as a file that can be asked again; empty where it is too long to read."""
    briefing: Briefing | None = None
    """What stands on a page of its own before all else; None where nobody but engineers asks."""
    gpus: GpuGrid | None = None
    """Which GPUs write, for those who can draw it."""
    sliders: tuple[Slider, ...] = ()
    """Inputs to drag, for those who can ask again at once."""
    assumptions: tuple[Assumption, ...] = ()
    """What the answer uses in fields that were left open, for those who show the question beside it."""
    problems: tuple[tuple[str, str], ...] = ()
    """What of the question was refused, so that the answer leaves it out: path of the field, and a sentence."""
    told_fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of a scenario that the answer tells, by dotted path, for those who can go on to ask with them."""


def titled_document(
    kind: str, summary: Summary, *charts: Spec, sections: tuple[Section, ...] = (), briefing: Briefing | None = None
) -> Document:
    """Make a document of a summary; `kind` says above its title what sort of answer it is."""
    first = FirstScreen(
        headline="",
        verdict=summary.verdict,
        misses=summary.misses,
        remedies=(),
        figures=(),
        warnings=summary.warnings,
    )
    return Document(
        kind,
        summary.headline,
        first,
        charts,
        sections,
        summary.grids,
        summary.remarks,
        briefing=briefing,
        problems=summary.problems,
    )


def as_file(document: Mapping[str, Any]) -> str:
    """Write a question as a YAML file that can be asked again; empty where it is too long to read."""
    text: str = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True)
    return text if text.count("\n") <= _MAX_LINES else ""


Standing = Literal["misses", "weak", "meets", "none"]
"""How a verdict stands out."""


class _Shown(StrictModel):
    """A part of a presentation, read field by field from a named tuple of `sizing.present`."""

    model_config = ConfigDict(from_attributes=True)


class ShownFigure(_Shown):
    """One figure in words."""

    label: str = Field(description="Quantity that the figure is of, such as the write time.")
    figure: str = Field(description="The figure with its unit; empty where there is none.")
    meaning: str = Field(description="Conditions under which the figure holds, and what limits it.")
    is_leading: bool = Field(
        description="Whether it answers the question itself: the first three of these stand large on a page."
    )


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
    topic: Literal["", "guesses"] = Field(
        description="What it is about, where a page shows that in a place of its own."
    )
    leads: bool = Field(description="Whether it is part of the answer, and stands before what else a reader may know.")


class ShownSlider(_Shown):
    """An input and the values that it is dragged through."""

    field: str = Field(description="Path of the input in the scenario.")
    steps: list[str] = Field(description="Values as they are typed, ascending.")
    position: int | None = Field(
        description="Number of the step nearest to the value that the answer holds for, counted from 0. Null where the "
        "scenario gives none."
    )


class ShownAssumption(_Shown):
    """What an answer uses in a field of the question that was left open."""

    field: str = Field(description="Path of the field in the scenario.")
    value_text: str = Field(description="What the field holds, in words and with its unit.")
    is_chosen: bool = Field(description="Whether it was chosen among several that fit, and is no default.")
    reason: str = Field(description="Why this value: a default with its source, or what it follows from.")


class ShownProblem(_Shown):
    """A part of the question that was refused, so that the answer leaves it out."""

    field: str = Field(description="Path of the field in the question.")
    sentence: str = Field(description="What is wrong with it, and what to do.")


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
    assumptions: list[ShownAssumption] = Field(
        description="What the answer uses in fields of the scenario that were left open; empty where it tells none."
    )
    problems: list[ShownProblem] = Field(
        description="What of the question was refused, so that the answer leaves it out; empty where nothing was."
    )
    told_fields: dict[str, str] = Field(
        description="Fields of a scenario that the answer tells, by dotted path, with values as they are typed; empty "
        "where it tells none."
    )
    version: str = Field(description="Version of checkpoint-sizing that answered.")


def presentation_of(document: Document) -> Presentation:
    """Turn a document into the data that REST answers, word for word."""
    first = document.first_page
    if not first.verdict:
        standing: Standing = "none"
    elif first.misses:
        standing = "misses"
    else:
        standing = "weak" if first.is_weak else "meets"
    return Presentation(
        kind=document.kind,
        title=document.title,
        headline=first.headline,
        verdict=first.verdict,
        standing=standing,
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
        assumptions=[ShownAssumption.model_validate(each) for each in document.assumptions],
        problems=[ShownProblem(field=path, sentence=sentence) for path, sentence in document.problems],
        told_fields=dict(document.told_fields),
        version=__version__,
    )
