"""What each published technique would change in a scenario, in words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from pydantic import JsonValue

from sizing.explore.techniques.techniques_report import FigureChange, TechniqueEffect, TechniquesReport
from sizing.summary.figure_names import figure_name
from sizing.summary.rows import Grid, Summary
from sizing.units import counted_text, figure_text

Spelled = Callable[[str, JsonValue], str]
"""How a field and its value are given."""


def as_field(path: str, value: JsonValue) -> str:
    """A field and its value as a file has them.

    >>> as_field("training.offload.optimizer", "host")
    'training.offload.optimizer: host'
    """
    return f"{path}: {value if isinstance(value, str) else json.dumps(value)}"


def techniques_summary(report: TechniquesReport, *, spelled: Spelled = as_field) -> Summary:
    """The techniques that apply, with the change and what it moves; then the others, with the reason."""
    applying = [each for each in report.techniques if each.reason is None]
    others = [each for each in report.techniques if each.reason is not None]
    grids = []
    if applying:
        rows = tuple((each.name, _change(each, spelled), _effects(each)) for each in applying)
        grids.append(Grid("What each would change", ("technique", "applied by", "without and with it"), rows))
    if others:
        told = tuple((each.name, each.reason or "") for each in others)
        grids.append(Grid("What does not apply here", ("technique", "reason"), told))
    counts = f"{counted_text(len(applying), 'technique')} of {len(report.techniques)} would apply"
    return Summary(headline=f"{report.model} on {report.num_gpus:,} GPUs: {counts}", grids=tuple(grids))


def _change(effect: TechniqueEffect, spelled: Spelled) -> str:
    if effect.plan is not None:
        return f"plan {effect.plan} of ckpt-size rematerialize"
    return "\n".join(spelled(path, value) for path, value in effect.change.items())


def _effects(effect: TechniqueEffect) -> str:
    return "\n".join(_texts(effect)) or "moves none of memory, checkpoint, stall and run"


def _texts(effect: TechniqueEffect) -> Iterator[str]:
    for change in effect.effects:
        before, after = (_figure(change, value) for value in (change.before, change.after))
        yield f"{figure_name(change.figure)} {before} -> {after}"


def _figure(change: FigureChange, value: float | None) -> str:
    if value is None:
        return "none"
    name = change.figure.rpartition(".")[2]
    if name == "fits":
        return figure_text(name, bool(value))
    return figure_text(name, int(value) if name.startswith("num_") else value)
