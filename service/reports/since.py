"""What the answer to a saved scenario became since it was saved: by which versions, and which figures differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from service.reports.asked import Asked
from service_client.documents import ChangedFigure, KeptFigure, ScenarioChanges
from sizing import __version__
from sizing.explore.comparisons.comparison import COMPARED_FIGURES, differ
from sizing.summary.kept import TARGETS_MET, kept_in_words, targets_met

_MOST_NAMED = 5
"""Figures that the line below a page has room for."""


def figures_in(report: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a report, as a document, that are kept with a saved scenario; None for those that it lacks.

    >>> figures_in({"write": {"seconds": 2.5}})["write.seconds"]
    2.5
    """
    split = {figure: figure.split(".") for figure in COMPARED_FIGURES}
    found = {figure: (report.get(block) or {}).get(field) for figure, (block, field) in split.items()}
    cannot_run = (report.get("training") or {}).get("cannot_run")
    return found | {TARGETS_MET: targets_met(report.get("targets", []), cannot_run=cannot_run)}


def kept_figures(figures: Mapping[str, Any]) -> Iterator[KeptFigure]:
    """The figures kept with a saved scenario that a list of them shows."""
    return (KeptFigure(**found._asdict()) for found in kept_in_words(figures))


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
    """Figures of then that are others now; what was not kept then, or is not known to this version, says nothing."""
    today = figures_in(report)
    for figure, then in figures.items():
        if figure in today and differ(then, today[figure]):
            yield ChangedFigure(figure=figure, then=then, now=today[figure])
