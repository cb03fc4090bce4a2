"""What was assumed and moves the answer: its range, what the headline becomes, and marks beside figures."""

from __future__ import annotations

from sizing.guesses.figures import HEADLINES
from sizing.guesses.guess import Guess, Swing
from sizing.report import SizingReport
from sizing.summary.figure_text import figure_text, figure_words
from sizing.summary.rows import Grid, Row

TITLE = "These guesses move your answer"


def top_guesses(report: SizingReport, num: int) -> list[Row]:
    """The assumptions that move the headline most: the input, its range, and what the headline becomes."""
    return [_row(guess, report) for guess in report.guesses[:num]]


def guess_rows(report: SizingReport) -> list[Row]:
    """All of them."""
    return top_guesses(report, len(report.guesses))


def guess_sentences(report: SizingReport, num: int) -> list[str]:
    """The same as sentences.

    >>> from sizing.report import answer
    >>> guess_sentences(answer({"model": {"preset": "gpt2"}}), 1)
    ['optimizer adafactor or adam: checkpoint size 748.0 MB to 1.742 GB, assumed adam']
    """
    return [f"{row.label} {row.figure}: {row.meaning}" for row in top_guesses(report, num)]


def guess_grid(report: SizingReport) -> Grid:
    """Where the ranges come from."""
    return Grid(
        "Ranges of the guesses",
        ("input", "assumed", "may be", "source"),
        tuple((g.field, figure_text(g.field, _plain(g.assumed)), range_text(g), g.source) for g in report.guesses),
    )


def marked(report: SizingReport, figure: str, meaning: str) -> str:
    """The meaning of a figure, with a mark where it rests on a guess with a wide swing: the first of them by name."""
    wide = [guess for guess in report.guesses if figure in guess.moves]
    if not wide:
        return meaning
    more = f", and {len(wide) - 1} more" if len(wide) > 1 else ""
    return f"{meaning} (guess: {figure_words(wide[0].field)} {range_text(wide[0])}{more})".strip()


def range_text(swing: Swing) -> str:
    """From where to where an input may lie, or between which alternatives."""
    low, high = (figure_text(swing.field, _plain(end)) for end in (swing.low, swing.high))
    return f"{low} {'to' if isinstance(swing.low, float) else 'or'} {high}"


def headline_range_text(swing: Swing, headline: str) -> str:
    """What the headline becomes at the ends of a range."""
    low, high = (figure_text(headline, end) for end in (swing.headline_low, swing.headline_high))
    return f"{HEADLINES[headline]} {low} to {high}"


def _row(guess: Guess, report: SizingReport) -> Row:
    becomes = headline_range_text(guess, report.headline.figure)
    assumed = figure_text(guess.field, _plain(guess.assumed))
    return Row(figure_words(guess.field), range_text(guess), f"{becomes}, assumed {assumed}")


def _plain(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
