"""Rows, tables, the first screen and the summary that every answer in words is made of."""

from __future__ import annotations

from typing import Literal, NamedTuple

UNKNOWN = "unknown"

WRITE_RATE = "storage.profile.write_bytes_per_second"
READ_RATE = "storage.profile.read_bytes_per_second"
CALIBRATION = "storage.calibration"
STORAGE_PRESET = "storage.preset"
MTBF = "reliability.mtbf_seconds"
FAILURES = "reliability.failures_per_node_day"
"""Fields of a scenario that answers ask for. Each front end shows a dotted path by the name that its reader knows."""


class Row(NamedTuple):
    """A figure with its label and its meaning."""

    label: str
    figure: str
    meaning: str

    @property
    def is_leading(self) -> bool:
        """Whether it answers the question itself: the first three of these stand large on a page."""
        return False


class LeadingRow(Row):
    """A figure that answers the question itself."""

    __slots__ = ()

    @property
    def is_leading(self) -> bool:
        """Whether it answers the question itself: it does."""
        return True


class Section(NamedTuple):
    """Figures that answer one question."""

    title: str
    rows: tuple[Row, ...]


class Grid(NamedTuple):
    """A table of text with a heading for each column, or with none at all."""

    title: str
    """Empty where the headline of the answer says what it holds."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    stressed: frozenset[int] = frozenset()
    """The rows that stand out, counted from 0."""
    is_figures: bool = False
    """Whether all cells are figures: they stand to the right, and are not wrapped."""
    num_keys: int = 1
    """The first columns by which a row is known: they stand again where the others go on below."""
    topic: Literal["", "guesses"] = ""
    """What it is about, where a page shows that in a place of its own."""
    leads: bool = False
    """Whether it is part of the answer: on a page it stands before what a reader must know, and before charts."""


class FirstScreen(NamedTuple):
    """The part of an answer that stands first in every medium: verdict, remedies, main figures, warnings."""

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


class Summary(NamedTuple):
    """An answer in words: headline, verdict and warnings, then tables, then remarks below them."""

    headline: str
    grids: tuple[Grid, ...]
    remarks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    verdict: str = ""
    misses: bool = False
    """Whether a target is missed."""
    sections: tuple[Section, ...] = ()
    """Figures that stand before the tables."""
    screen: FirstScreen | None = None
    """What stands first in place of headline, verdict and warnings, of an answer that has a first screen."""
    is_full: bool = False
    """Whether sections and tables follow the first screen, in place of its figures and guesses."""
    problems: tuple[tuple[str, str], ...] = ()
    """What of the question was refused, so that the answer leaves it out: path of the field, and a sentence."""
    notes: tuple[str, ...] = ()
    """Lines in a quieter style that say where the rest of the answer is, or what it rests on."""
