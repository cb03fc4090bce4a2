"""What the answer to a saved scenario became since it was saved: by which versions, and which figures differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from service.reports.asked import Asked
from service_client.documents import ChangedFigure, ScenarioChanges
from sizing import __version__
from sizing.explore.comparisons.comparison import COMPARED_FIGURES, differ

_MOST_NAMED = 5
"""Figures that the line below a page has room for."""


def figures_in(report: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a report, as a document, that are kept with a saved scenario; None for those that it lacks.

    >>> figures_in({"write": {"seconds": 2.5}})["write.seconds"]
    2.5
    """
    split = {figure: figure.split(".") for figure in COMPARED_FIGURES}
    return {figure: (report.get(block) or {}).get(field) for figure, (block, field) in split.items()}


def changes_since(asked: Asked, report: Mapping[str, Any]) -> ScenarioChanges:
    """What the report of today, as a document, has unlike the one that the saved scenario had."""
    return ScenarioChanges(
        saved_by=asked.code_version, answered_by=__version__, figures=list(_changed(asked.figures or {}, report))
    )


def origin(asked: Asked, report: Mapping[str, Any]) -> str:
    """Where the question is kept, and what changed since, in words; nothing of one that was sent once."""
    if asked.code_version is None or not asked.origin:
        return asked.origin
    changes = changes_since(asked, report)
    names = [changed.figure for changed in changes.figures]
    shown = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if names[_MOST_NAMED:] else "")
    said = f"figures that differ since: {shown}" if names else "no figure differs since"
    return f"{asked.origin} by checkpoint-sizing {asked.code_version}, {said}"


def _changed(figures: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[ChangedFigure]:
    """Figures of then that are others now; what was not kept then says nothing."""
    today = figures_in(report)
    for figure, then in figures.items():
        if differ(then, today.get(figure)):
            yield ChangedFigure(figure=figure, then=then, now=today.get(figure))
