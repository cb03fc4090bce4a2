"""The first screen of a report, and the first page: what was asked, the verdict, the figures, what may mislead."""

from __future__ import annotations

from typing import NamedTuple

from sizing.report import SizingReport
from sizing.summary.guesses import guess_sentences
from sizing.summary.headline import headline
from sizing.summary.key_figures import key_figures
from sizing.summary.rows import Row
from sizing.summary.targets import has_missed, remedies, verdict

NUM_GUESSES = 3
"""On the first screen: as many as move the answer most and still leave it one screen."""


class FirstScreen(NamedTuple):
    """What stands above everything else, wherever a report is shown."""

    headline: str
    verdict: str
    misses: bool
    """Whether a target is missed: the verdict then stands out."""
    remedies: tuple[str, ...]
    figures: tuple[Row, ...]
    warnings: tuple[str, ...]
    guesses: tuple[str, ...] = ()
    """The guesses that move the answer most, as sentences."""


def first_screen(report: SizingReport) -> FirstScreen:
    """The first screen of a report."""
    return FirstScreen(
        headline=headline(report),
        verdict=verdict(report),
        misses=has_missed(report.targets),
        remedies=tuple(remedies(report)),
        figures=tuple(key_figures(report)),
        warnings=tuple(report.warnings),
        guesses=tuple(guess_sentences(report, NUM_GUESSES)),
    )
