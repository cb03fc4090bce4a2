"""What was assumed and moves the answer: its range, what the headline becomes, and marks beside figures."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.guesses.figures import HEADLINES
from sizing.guesses.guess import Guess, InputSwing, Swing
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
        tuple((each.field, _text(each, each.assumed), range_text(each), each.source) for each in report.guesses),
    )


def marked(report: SizingReport, figure: str, meaning: str) -> str:
    """The meaning of a figure, with a mark where it rests on a guess with a wide swing: the first of them by name."""
    wide = [guess for guess in report.guesses if figure in guess.moves]
    if not wide:
        return meaning
    more = f", and {len(wide) - 1} more" if len(wide) > 1 else ""
    return f"{meaning} (guess: {figure_words(wide[0].field)} {_guessed_text(wide[0])}{more})".strip()


def swing_rows(swings: Sequence[InputSwing], headline: str) -> list[tuple[str, ...]]:
    """What was given, over what it was varied, and what the headline becomes: a row for each input."""
    names = input_words([swing.field for swing in swings])
    return [
        (name, _text(swing, swing.given), range_text(swing), _becomes_text(swing, headline))
        for name, swing in zip(names, swings, strict=True)
    ]


def input_words(fields: Sequence[str]) -> list[str]:
    """Fields in words: the last part of each path, or the whole path where two would read alike.

    >>> input_words(["checkpoint.interval_seconds", "a.0.mtbf_seconds", "a.1.mtbf_seconds"])
    ['interval', 'a.0.mtbf_seconds', 'a.1.mtbf_seconds']
    """
    words = [figure_words(field) for field in fields]
    return [word if words.count(word) == 1 else field for word, field in zip(words, fields, strict=True)]


def end_texts(swing: Swing) -> tuple[str, str]:
    """Both ends of an input for a reader."""
    return _text(swing, swing.low), _text(swing, swing.high)


def range_text(swing: Swing) -> str:
    """From where to where an input may lie, or between which alternatives."""
    low, high = end_texts(swing)
    return f"{low} {'to' if _is_number(swing.low) else 'or'} {high}"


def headline_range_text(swing: Swing, headline: str) -> str:
    """What the headline becomes at the ends of a range."""
    return f"{HEADLINES[headline]} {_becomes_text(swing, headline)}"


def _guessed_text(guess: Guess) -> str:
    """The range of a number; of a choice what was taken."""
    return range_text(guess) if _is_number(guess.low) else _text(guess, guess.assumed)


def _row(guess: Guess, report: SizingReport) -> Row:
    becomes = headline_range_text(guess, report.headline.figure)
    return Row(figure_words(guess.field), range_text(guess), f"{becomes}, assumed {_text(guess, guess.assumed)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _becomes_text(swing: Swing, headline: str) -> str:
    low, high = (figure_text(headline, end) for end in (swing.headline_low, swing.headline_high))
    return f"{low} to {high}"


def _text(swing: Swing, value: object) -> str:
    return figure_text(swing.field, ", ".join(map(str, value)) if isinstance(value, list) else value)
