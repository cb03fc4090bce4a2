"""Guesses that move an answer: the range of each, what the headline becomes over it, and marks beside figures.

The intervals of a calibration are marked in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from sizing.field_paths import value_at
from sizing.guesses.figures import headline_words
from sizing.guesses.guess import WIDE_FRACTION, Guess, Headline, InputSwing, Swing
from sizing.present.figure_names import figure_name, figure_words
from sizing.present.rows import UNKNOWN, Grid, Row
from sizing.report import SizingReport
from sizing.storage.calibration import MAX_USEFUL_RATIO
from sizing.units import figure_text, percent_text

MARK = "~"
_MOVES = f"{MARK} moves by more than {percent_text(WIDE_FRACTION)}"
_ASSUMED = "with what is assumed"
MARK_MEANING = f"{_MOVES} {_ASSUMED}"
IN_INTERVALS = "within the 90 % intervals of the calibration"
NO_PREDICTION = "no useful prediction"
"""What is said of a time with an interval that is too wide to decide by."""
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
    """Add to the meaning of a figure its range, and the calibration or the guess by name that moves it widely."""
    wide = _wide_guesses(report, figure)
    reasons = ["calibration: 90 % interval"] if moves_in_interval(report, figure) else []
    if wide:
        guess, more = wide[0], f", and {len(wide) - 1} more" if len(wide) > 1 else ""
        value = range_text(guess) if _is_number(guess.low) else _text(guess, guess.assumed)
        reasons.append(f"guess: {figure_words(guess.field)} {value}{more}")
    if not reasons:
        return meaning
    return f"{_put_range_before(report, figure, meaning, shown)} ({'; '.join(reasons)})".strip()


def roughly(report: SizingReport, row: Row, *figures: str, shown: Shown = as_it_is) -> Row:
    """Mark the figure of a row of the first screen, and add its range, where a guess or a calibration moves it widely.

    `figures` are the paths in the report of what the row shows, of the first of them as `shown` says. What the mark
    means is said once, by `mark_meaning`. A figure that is not known has neither.
    """
    if row.figure == UNKNOWN or not any(
        _wide_guesses(report, figure) or moves_in_interval(report, figure) for figure in figures
    ):
        return row
    meaning = _put_range_before(report, figures[0], row.meaning, shown)
    return row._replace(figure=f"{MARK}{row.figure}", meaning=meaning)


def with_range(report: SizingReport, figure: str, text: str) -> str:
    """Add its range to a figure within a sentence, where a guess or a calibration moves it widely."""
    figure_range = guessed_range_text(report, figure)
    return f"{text} ({figure_range})" if figure_range else text


def guessed_range_text(report: SizingReport, figure: str, *, shown: Shown = as_it_is) -> str:
    """Write what a figure becomes with one guess at another value, or within the interval of a calibration.

    Empty where neither moves it widely.
    """
    ends: list[float | None] = [*report.guessed_ranges.get(figure, ())]
    if moves_in_interval(report, figure):
        ends += report.prediction_intervals[figure]
    if shown is None or not ends:
        return ""
    numbers = [shown(end) for end in ends if end is not None]
    if len(numbers) < len(ends):
        return f"{figure_text(figure, min(numbers))} or more, up to where no rate is enough"
    span = span_text(figure_text(figure, min(numbers)), figure_text(figure, max(numbers)))
    return f"{NO_PREDICTION}: {span}" if is_useless(report, figure) else span


def span_text(low: str, high: str) -> str:
    """Write both ends of a range, their unit once where it is the same; empty where the ends look alike.

    >>> span_text("4.05 %", "15.8 %"), span_text("324.2 ms", "2.74 h"), span_text("5 %", "5 %")
    ('4.05 to 15.8 %', '324.2 ms to 2.74 h', '')
    """
    number, _, unit = low.partition(" ")
    return "" if low == high else f"{number if high.endswith(f' {unit}') else low} to {high}"


def moves_in_interval(report: SizingReport, figure: str) -> bool:
    """Whether an end of the interval that a calibration leaves to a figure differs from it by more than a tenth."""
    own, interval = value_at(report, figure), report.prediction_intervals.get(figure)
    if own is None or interval is None:
        return False
    return bool(max(abs(end - own) for end in interval) > WIDE_FRACTION * abs(own))


def is_useless(report: SizingReport, figure: str) -> bool:
    """Whether the interval that a calibration leaves to a time is too wide to decide by."""
    low, high = report.prediction_intervals.get(figure, (0.0, 0.0))
    return figure.endswith("seconds") and high > MAX_USEFUL_RATIO * low


def _put_range_before(report: SizingReport, figure: str, meaning: str, shown: Shown) -> str:
    return "; ".join(filter(None, (guessed_range_text(report, figure, shown=shown), meaning)))


def mark_meaning(report: SizingReport, rows: Iterable[Row], figures: Collection[str]) -> str:
    """Say what the mark of some rows means, and what moves their `figures`; empty where no row has it."""
    if not any(MARK in row.figure for row in rows):
        return ""
    names = [figure_words(guess.field) for guess in report.guesses if any(path in figures for path in guess.moves)]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    guesses = f"{_ASSUMED}: {', '.join(names[:_MAX_NAMES])}{more}"
    if not any(moves_in_interval(report, figure) for figure in figures):
        return f"{_MOVES} {guesses}"
    return f"{_MOVES} {IN_INTERVALS}" + (f", or {guesses}" if names else "")


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
