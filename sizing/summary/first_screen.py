"""The first screen of a report, and the first page: what was asked, the verdict, the figures, what may mislead."""

from __future__ import annotations

from typing import NamedTuple

from sizing.report import SizingReport
from sizing.summary.guesses import guess_sentences, mark_meaning
from sizing.summary.headline import headline
from sizing.summary.key_figures import SHOWN, key_figures
from sizing.summary.rows import Row
from sizing.summary.targets import has_missed, is_weak, lost_by, remedies, verdict

NUM_GUESSES = 3
"""On the first screen, those that move the answer most; the tables have all of them."""


class FirstScreen(NamedTuple):
    """What stands above everything else, wherever a report is shown."""

    headline: str
    verdict: str
    misses: bool
    """Whether the layout cannot run or a target is missed: the verdict then stands out."""
    remedies: tuple[str, ...]
    figures: tuple[Row, ...]
    warnings: tuple[str, ...]
    is_weak: bool = False
    """Whether no target is missed, and yet the verdict is less than that all are met: it is then marked."""
    mark_meaning: str = ""
    """What the mark of a figure means; empty where none has one."""
    guesses: tuple[str, ...] = ()
    """The guesses that move the answer most, as sentences."""


def first_screen(report: SizingReport) -> FirstScreen:
    """The first screen of a report."""
    lost, figures = lost_by(report.shares, report.interval), tuple(key_figures(report))
    cannot_run = report.training.cannot_run
    return FirstScreen(
        headline=headline(report),
        verdict=verdict(report),
        misses=cannot_run is not None or has_missed(report.targets),
        is_weak=is_weak(report.targets, lost),
        remedies=tuple(remedies(report)),
        figures=figures,
        mark_meaning=mark_meaning(report, figures, SHOWN),
        warnings=tuple(each for each in report.warnings if cannot_run is None or not each.startswith(cannot_run)),
        guesses=tuple(guess_sentences(report, NUM_GUESSES)),
    )
