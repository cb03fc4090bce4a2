"""Training techniques, in words: what each would change in a scenario, or why it does not apply."""

from __future__ import annotations

from sizing.present.figure_names import FieldSpelling, as_field, figure_name
from sizing.present.rows import Grid, Summary
from sizing.questions.techniques.report import FigureChange, TechniqueEffect, TechniquesReport
from sizing.units import counted_text, figure_text


def techniques_summary(report: TechniquesReport, *, spelling: FieldSpelling = as_field) -> Summary:
    """List the techniques that apply, with the change and what it moves; then the others, with the reason."""
    applying = [each for each in report.techniques if each.reason is None]
    others = tuple((each.name, each.reason) for each in report.techniques if each.reason is not None)
    grids = []
    if applying:
        rows = tuple((each.name, _change_text(each, spelling), _effects_text(each)) for each in applying)
        grids.append(Grid("What each would change", ("technique", "applied by", "without and with it"), rows))
    if others:
        grids.append(Grid("What does not apply here", ("technique", "reason"), others))
    counts = f"{counted_text(len(applying), 'technique')} of {len(report.techniques)} would apply"
    return Summary(
        headline=f"{report.model} on {report.num_gpus:,} GPUs: {counts}",
        grids=tuple(grids),
        warnings=tuple(report.warnings),
    )


def _change_text(effect: TechniqueEffect, spelling: FieldSpelling) -> str:
    if effect.plan is not None:
        return f"plan {effect.plan} of ckpt-size rematerialize"
    return "\n".join(spelling(path, value) for path, value in effect.change.items())


def _effects_text(effect: TechniqueEffect) -> str:
    lines = []
    for change in effect.effects:
        before, after = (_value_text(change, value) for value in (change.before, change.after))
        lines.append(f"{figure_name(change.figure)} {before} -> {after}")
    return "\n".join(lines) or "moves none of memory, checkpoint, stall and run"


def _value_text(change: FigureChange, value: float | None) -> str:
    if value is None:
        return "none"
    name = change.figure.rpartition(".")[2]
    if name == "fits":
        return figure_text(name, bool(value))
    return figure_text(name, int(value) if name.startswith("num_") else value)
