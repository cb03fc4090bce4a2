"""Comparison in words: verdicts, inputs that differ, figures that follow, and which input made which difference."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from sizing.guesses.figures import BYTES
from sizing.guesses.guess import Guess, Headline
from sizing.present.figure_names import figure_name, list_names
from sizing.present.guesses import MARK, MARK_MEANING, TITLE, headline_range_text, range_text, visible_guesses
from sizing.present.rows import Grid, Summary
from sizing.present.targets import Lost, has_missed, target_rows, verdict_on, with_refusal
from sizing.questions.compare.report import ComparisonReport, Explanation, FigureRow
from sizing.units import change_text, figure_text

_ORDER_MATTERS = "Where inputs work together, what each changes depends on the order."
_MAX_CHANGES = 6
"""Max changes of one input; the others are in the table of all figures."""
_NUM_GUESSES = 3
"""Guesses of each scenario, those that move it most, as on the first screen."""
_WEIGHED_AS = {"checkpoint.total_bytes": BYTES, "capacity.capacity_bytes": BYTES}
"""Figures that guesses move as far as another one."""


def comparison_summary(report: ComparisonReport) -> Summary:
    """Give the verdicts, the inputs that differ, the figures that follow, and which input made which difference."""
    verdicts = (
        f"{name}: {with_refusal(because, verdict_on(checks, lost=lost))}"
        for name, because, checks, lost in zip(
            report.names, report.cannot_run, report.targets, _lost_time(report), strict=True
        )
    )
    differing = [_inputs_grid(report)] if report.inputs else []
    steps = [_steps_grid(report, explanation) for explanation in report.explanations if report.inputs]
    named = zip(report.names, report.warnings, strict=True)
    figures = _figures_grid(report)
    marks = [MARK_MEANING] if any(MARK in cell for row in figures.rows for cell in row) else []
    return Summary(
        headline=f"{report.names[0]} against {', '.join(report.names[1:])}",
        verdict="\n".join(verdicts),
        misses=any(report.cannot_run) or any(map(has_missed, report.targets)),
        grids=(_targets_grid(report), *differing, figures, *_guesses_grids(report), *steps),
        remarks=(*marks, _ORDER_MATTERS if report.inputs else "The scenarios do not differ."),
        warnings=tuple(f"{name}: {warning}" for name, warnings in named for warning in warnings),
    )


def _lost_time(report: ComparisonReport) -> list[Lost | None]:
    """Find what the run of each scenario loses of its time."""
    by_figure = {row.figure: row.values for row in report.figures}
    goodputs = by_figure["interval.goodput_at_interval_fraction"]
    return [
        Lost(1 - goodput, None, "at least " if headline.leaves_out_restore else "")
        if isinstance(goodput, float)
        else None
        for goodput, headline in zip(goodputs, report.headlines, strict=True)
    ]


def _targets_grid(report: ComparisonReport) -> Grid:
    rows = tuple(
        (name, *row) for name, checks in zip(report.names, report.targets, strict=True) for row in target_rows(checks)
    )
    missed = frozenset(place for place, row in enumerate(rows) if "MISSED" in row[-1])
    return Grid("Targets", ("scenario", "target", "found", ""), rows, missed)


def _inputs_grid(report: ComparisonReport) -> Grid:
    rows = []
    for difference in (*report.inputs, *report.assumed):
        texts = ["none" if value is None else figure_text(difference.field, value) for value in difference.values]
        marks = (" (assumed)" if is_assumed else "" for is_assumed in difference.assumed)
        rows.append((figure_name(difference.field), *map("".join, zip(texts, marks, strict=True))))
    return Grid("Inputs that differ", ("input", *report.names), tuple(rows))


def _guesses_grids(report: ComparisonReport) -> Iterator[Grid]:
    """Show the assumptions that move the compared answers most, and how far they move each."""
    shown = [
        visible_guesses(guesses, headline) for guesses, headline in zip(report.guesses, report.headlines, strict=True)
    ]
    first = dict.fromkeys(guess.field for guesses in shown for guess in guesses[:_NUM_GUESSES])
    if first:
        rows = tuple(_guess_row(field, shown, report.headlines) for field in first)
        yield Grid(TITLE, ("nobody stated", "may be", *report.names), rows)


def _guess_row(field: str, shown: Sequence[Sequence[Guess]], headlines: Sequence[Headline]) -> tuple[str, ...]:
    of_each = [next((guess for guess in guesses if guess.field == field), None) for guesses in shown]
    may_be = "; ".join(dict.fromkeys(range_text(guess) for guess in of_each if guess))
    moved = (
        headline_range_text(guess, headline) if guess else "given, or without effect"
        for guess, headline in zip(of_each, headlines, strict=True)
    )
    return (figure_name(field), may_be, *moved)


def _figures_grid(report: ComparisonReport) -> Grid:
    known = [row for row in report.figures if any(value is not None for value in row.values)]
    moved = [{path for guess in guesses for path in guess.moves} for guesses in report.guesses]
    rows = tuple((figure_name(row.figure), *_figure_cells(row, moved)) for row in known)
    differing = frozenset(place for place, row in enumerate(known) if row.differs)
    return Grid("Figures", ("figure", *report.names), rows, differing)


def _figure_cells(row: FigureRow, moved: Sequence[Container[str]]) -> Iterator[str]:
    """Write the figures of a row, with the mark of those that rest on a guess with a wide swing."""
    path = _WEIGHED_AS.get(row.figure, row.figure)
    for place, (value, ratio) in enumerate(zip(row.values, row.ratios, strict=True)):
        relative = "" if place == 0 or ratio is None else f" ({ratio:.3g} x)"
        mark = MARK if value is not None and path in moved[place] else ""
        yield mark + figure_text(row.figure, value) + relative.replace(" (1 x)", "")


def _steps_grid(report: ComparisonReport, explanation: Explanation) -> Grid:
    rows = []
    for step in explanation.steps:
        texts = [
            f"{figure_name(change.figure)} "
            f"{change_text(figure_text(change.figure, change.before), figure_text(change.figure, change.after))}"
            for change in step.changes[:_MAX_CHANGES]
        ]
        if (num_more := len(step.changes) - len(texts)) > 0:
            texts.append(f"{num_more} more")
        rows.append((list_names(step.inputs), "; ".join(texts) or "no figure"))
    title = f"From {report.names[0]} to {explanation.name}, one input after the other"
    return Grid(title, ("changed", "what follows"), tuple(rows))
