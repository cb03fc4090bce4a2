"""Guesses that move an answer: the range of each, what the headline becomes over it, and marks beside figures."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from sizing.guesses.figures import headline_words
from sizing.guesses.guess import WIDE_FRACTION, Guess, Headline, InputSwing, Swing
from sizing.present.figure_names import figure_name, figure_words
from sizing.present.rows import Grid, Row
from sizing.report import SizingReport
from sizing.units import figure_text, percent_text

MARK = "~"
MARK_MEANING = f"{MARK} moves by more than {percent_text(WIDE_FRACTION)} with what is assumed"
_MAX_NAMES = 5
"""Max names of guesses in one line."""
TITLE = "These guesses move your answer"


def guess_rows(report: SizingReport, num: int | None = None) -> list[Row]:
    """List the guesses that move the headline most: the input, its range, what the headline becomes; None: all."""
    return [
        Row(
            figure_words(guess.field),
            range_text(guess),
            f"{headline_range_text(guess, report.headline)}, assumed {_text(guess, guess.assumed)}",
        )
        for guess in visible_guesses(report.guesses, report.headline)[:num]
    ]


def visible_guesses(guesses: Iterable[Guess], headline: Headline) -> list[Guess]:
    """Choose the guesses whose swing shows in the digits of the headline."""
    return [guess for guess in guesses if len(set(_headline_texts(guess, headline.figure, headline.value))) > 1]


def guess_sentences(report: SizingReport, num: int) -> list[str]:
    """Write the guesses that move the answer most as sentences.

    >>> from sizing.report import answer
    >>> guess_sentences(answer({"model": {"preset": "gpt2"}}), 1)
    ['optimizer adafactor or adam: checkpoint size 748.0 MB to 1.742 GB, assumed adam']
    """
    return [f"{row.label} {row.figure}: {row.meaning}" for row in guess_rows(report, num)]


def guess_grid(report: SizingReport) -> Grid:
    """Show the range of each guess, what the headline becomes over it, and the source of the range."""
    headline = report.headline
    return Grid(
        TITLE,
        ("input", "assumed", "may be", headline_words(headline), "source"),
        tuple(
            (
                figure_name(each.field),
                _text(each, each.assumed),
                range_text(each),
                _becomes_text(each, headline.figure),
                each.source,
            )
            for each in visible_guesses(report.guesses, headline)
        ),
        topic="guesses",
    )


Shown = Callable[[float], float] | None
"""Turns a figure of the report into what a row shows of it; None where the row does not follow from it alone."""


def as_it_is(value: float) -> float:
    """Show the figure itself."""
    return value


def marked(report: SizingReport, figure: str, meaning: str, *, shown: Shown = as_it_is) -> str:
    """Add to the meaning of a figure that rests on a guess with a wide swing its range, and the guess by name."""
    wide = _wide_guesses(report, figure)
    if not wide:
        return meaning
    guess, more = wide[0], f", and {len(wide) - 1} more" if len(wide) > 1 else ""
    value = range_text(guess) if _is_number(guess.low) else _text(guess, guess.assumed)
    meaning = _put_range_before(report, figure, meaning, shown)
    return f"{meaning} (guess: {figure_words(guess.field)} {value}{more})".strip()


def roughly(report: SizingReport, row: Row, *figures: str, shown: Shown = as_it_is) -> Row:
    """Mark the figure of a row of the first screen, and add its range, where it rests on a guess with a wide swing.

    `figures` are the paths in the report of what the row shows, of the first of them as `shown` says. What the mark
    means is said once, by `mark_meaning`.
    """
    if not any(_wide_guesses(report, figure) for figure in figures):
        return row
    meaning = _put_range_before(report, figures[0], row.meaning, shown)
    return row._replace(figure=f"{MARK}{row.figure}", meaning=meaning)


def with_range(report: SizingReport, figure: str, text: str) -> str:
    """Add its range to a figure within a sentence, where the figure rests on a guess with a wide swing."""
    figure_range = guessed_range_text(report, figure)
    return f"{text} ({figure_range})" if figure_range else text


def guessed_range_text(report: SizingReport, figure: str, *, shown: Shown = as_it_is) -> str:
    """Write what a figure becomes with one guess at another value; empty where no guess moves it widely."""
    if shown is None or figure not in report.guessed_ranges:
        return ""
    least, most = report.guessed_ranges[figure]
    if most is None:
        return f"{figure_text(figure, shown(least))} or more, up to where no rate is enough"
    low, high = (figure_text(figure, end) for end in sorted(map(shown, (least, most))))
    number, _, unit = low.partition(" ")
    return "" if low == high else f"{number if high.endswith(f' {unit}') else low} to {high}"


def _put_range_before(report: SizingReport, figure: str, meaning: str, shown: Shown) -> str:
    return "; ".join(filter(None, (guessed_range_text(report, figure, shown=shown), meaning)))


def mark_meaning(report: SizingReport, rows: Iterable[Row], figures: Container[str]) -> str:
    """Say what the mark of some rows means, and which guesses move their `figures`; empty where no row has it."""
    if not any(MARK in row.figure for row in rows):
        return ""
    names = [figure_words(guess.field) for guess in report.guesses if any(path in figures for path in guess.moves)]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    named = ", ".join(names[:_MAX_NAMES])
    return f"{MARK_MEANING}: {named}{more}"


def _wide_guesses(report: SizingReport, figure: str) -> list[Guess]:
    """List the guesses that move a figure widely, the largest swing of the headline first."""
    return [guess for guess in report.guesses if figure in guess.moves]


def swing_rows(swings: Sequence[InputSwing], headline: str) -> list[tuple[str, ...]]:
    """List each input: its value, the range of its variation, what the headline becomes, the source of the range."""
    names = input_words([swing.field for swing in swings])
    return [
        (name, _text(swing, swing.given), range_text(swing), _becomes_text(swing, headline), swing.source)
        for name, swing in zip(names, swings, strict=True)
    ]


def input_words(fields: Sequence[str]) -> list[str]:
    """Write fields in words: the last part of each path, with the block where two would read alike.

    >>> input_words(["checkpoint.interval_seconds", "a.0.mtbf_seconds", "a.1.mtbf_seconds"])
    ['interval', 'a 0: MTBF', 'a 1: MTBF']
    """
    words = [figure_words(field) for field in fields]
    return [word if words.count(word) == 1 else figure_name(field) for word, field in zip(words, fields, strict=True)]


def end_texts(swing: Swing) -> tuple[str, str]:
    """Write both ends of the range of an input."""
    return _text(swing, swing.low), _text(swing, swing.high)


def range_text(swing: Swing) -> str:
    """Write the range in which an input may lie, or its alternatives."""
    low, high = end_texts(swing)
    return f"{low} {'to' if _is_number(swing.low) else 'or'} {high}"


def headline_range_text(swing: Swing, headline: Headline) -> str:
    """Write what the headline becomes at both ends of a range."""
    return f"{headline_words(headline)} {_becomes_text(swing, headline.figure)}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _becomes_text(swing: Swing, headline: str) -> str:
    low, high = _headline_texts(swing, headline)
    return f"stays {low}" if low == high else f"{low} to {high}"


def _headline_texts(swing: Swing, headline: str, *further: float) -> list[str]:
    """Write the headline at both ends of a range, and at `further` values."""
    return [figure_text(headline, value) for value in (swing.headline_low, swing.headline_high, *further)]


def _text(swing: Swing, value: object) -> str:
    return figure_text(swing.field, ", ".join(map(str, value)) if isinstance(value, list) else value)
