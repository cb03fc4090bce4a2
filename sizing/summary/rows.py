"""Text in rows: figures that answer a question, and tables."""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN = "unknown"


class Row(NamedTuple):
    """One figure: what it is of, the figure, what it means."""

    label: str
    figure: str
    meaning: str


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
    leads: bool = False
    """Whether it is part of the answer: on a page it stands before what a reader must know, and before charts."""


class Summary(NamedTuple):
    """The answer to a question in words: what stands first, tables, and what is said below them."""

    headline: str
    grids: tuple[Grid, ...]
    remarks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    verdict: str = ""
    misses: bool = False
    """Whether a target is missed."""
