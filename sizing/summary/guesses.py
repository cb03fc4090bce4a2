"""What was assumed and moves the answer: its range, what the headline becomes, and marks beside figures."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from sizing.guesses.figures import headline_words
from sizing.guesses.guess import WIDE_FRACTION, Guess, Headline, InputSwing, Swing
from sizing.report import SizingReport
from sizing.summary.figure_names import figure_name, figure_words
from sizing.summary.rows import Grid, Row
from sizing.units import figure_text, percent_text

MARK = "~"
MARK_MEANING = f"{MARK} moves by more than {percent_text(WIDE_FRACTION)} with what is assumed"
_MAX_NAMES = 5
"""Of guesses, in one line."""
TITLE = "These guesses move your answer"


def top_guesses(report: SizingReport, num: int) -> list[Row]:
    """The assumptions that move the headline most: the input, its range, and what the headline becomes."""
    return [_row(guess, report) for guess in visible_guesses(report)[:num]]


def visible_guesses(report: SizingReport) -> list[Guess]:
    """Those with a swing that shows in the digits of the headline."""
    return visible(report.guesses, report.headline)


def visible(guesses: Iterable[Guess], headline: Headline) -> list[Guess]:
    """The same of some guesses."""
    return [guess for guess in guesses if len(set(_end_headlines(guess, headline.figure, headline.value))) > 1]


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
        tuple(
            (figure_name(each.field), _text(each, each.assumed), range_text(each), each.source)
            for each in visible_guesses(report)
        ),
    )


def marked(report: SizingReport, figure: str, meaning: str) -> str:
    """The meaning of a figure, with a mark where it rests on a guess with a wide swing: the first of them by name."""
    wide = _wide(report, figure)
    if not wide:
        return meaning
    return f"{meaning} (guess: {figure_words(wide[0].field)} {_guessed_text(wide[0])}{_and_more(wide)})".strip()


def roughly(report: SizingReport, row: Row, *figures: str) -> Row:
    """A row of the first screen, its figure with a mark where it rests on a guess with a wide swing.

    `figures` are the paths in the report of what it shows. What the mark means is said once: `mark_meaning`.
    """
    is_wide = any(_wide(report, figure) for figure in figures)
    return row._replace(figure=f"{MARK}{row.figure}") if is_wide else row


def mark_meaning(report: SizingReport, rows: Iterable[Row], figures: Container[str]) -> str:
    """What the mark of some rows means, with the guesses that move their `figures` so far; empty where none has it."""
    if not any(MARK in row.figure for row in rows):
        return ""
    names = [figure_words(guess.field) for guess in report.guesses if any(path in figures for path in guess.moves)]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    named = ", ".join(names[:_MAX_NAMES])
    return f"{MARK_MEANING}: {named}{more}"


def _wide(report: SizingReport, figure: str) -> list[Guess]:
    """The guesses that move a figure widely, the largest swing of the headline first."""
    return [guess for guess in report.guesses if figure in guess.moves]


def _and_more(guesses: Sequence[Guess]) -> str:
    return f", and {len(guesses) - 1} more" if len(guesses) > 1 else ""


def swing_rows(swings: Sequence[InputSwing], headline: str) -> list[tuple[str, ...]]:
    """What was given, over what it was varied, what the headline becomes, and why so far: a row for each input."""
    names = input_words([swing.field for swing in swings])
    return [
        (name, _text(swing, swing.given), range_text(swing), _becomes_text(swing, headline), swing.source)
        for name, swing in zip(names, swings, strict=True)
    ]


def input_words(fields: Sequence[str]) -> list[str]:
    """Fields in words: the last part of each path, with the block where two would read alike.

    >>> input_words(["checkpoint.interval_seconds", "a.0.mtbf_seconds", "a.1.mtbf_seconds"])
    ['interval', 'a 0: MTBF', 'a 1: MTBF']
    """
    words = [figure_words(field) for field in fields]
    return [word if words.count(word) == 1 else figure_name(field) for word, field in zip(words, fields, strict=True)]


def end_texts(swing: Swing) -> tuple[str, str]:
    """Both ends of an input for a reader."""
    return _text(swing, swing.low), _text(swing, swing.high)


def range_text(swing: Swing) -> str:
    """From where to where an input may lie, or between which alternatives."""
    low, high = end_texts(swing)
    return f"{low} {'to' if _is_number(swing.low) else 'or'} {high}"


def headline_range_text(swing: Swing, headline: Headline) -> str:
    """What the headline becomes at the ends of a range."""
    return f"{headline_words(headline)} {_becomes_text(swing, headline.figure)}"


def _guessed_text(guess: Guess) -> str:
    """The range of a number; of a choice what was taken."""
    return range_text(guess) if _is_number(guess.low) else _text(guess, guess.assumed)


def _row(guess: Guess, report: SizingReport) -> Row:
    becomes = headline_range_text(guess, report.headline)
    return Row(figure_words(guess.field), range_text(guess), f"{becomes}, assumed {_text(guess, guess.assumed)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _becomes_text(swing: Swing, headline: str) -> str:
    low, high = _end_headlines(swing, headline)
    return f"stays {low}" if low == high else f"{low} to {high}"


def _end_headlines(swing: Swing, headline: str, *beside: float) -> list[str]:
    """The headline at both ends, and other values of it, as they are shown."""
    return [figure_text(headline, value) for value in (swing.headline_low, swing.headline_high, *beside)]


def _text(swing: Swing, value: object) -> str:
    return figure_text(swing.field, ", ".join(map(str, value)) if isinstance(value, list) else value)
