"""Tables for spreadsheets: CSV in which no text can run as a formula."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any, Protocol

_COMMANDS = ("=", "+", "-", "@", "\t", "\r")
"""With which a text begins that a spreadsheet runs (OWASP, CSV Injection)."""


class _Output(Protocol):
    def write(self, text: str, /) -> object: ...


def guarded(value: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would run. Numbers and other values stay unchanged.

    >>> guarded("=HYPERLINK(1)"), guarded("gpt2"), guarded(-1.5)
    ("'=HYPERLINK(1)", 'gpt2', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_COMMANDS) else value


def unguarded(text: str) -> str:
    """Take the apostrophe of `guarded` away.

    >>> unguarded("'=1+1"), unguarded("'s")
    ('=1+1', "'s")
    """
    return text[1:] if text.startswith("'") and text[1:].startswith(_COMMANDS) else text


class TableWriter:
    """Writer of rows as CSV; None becomes an empty cell."""

    def __init__(self, out: _Output, *, line_end: str = "\n") -> None:
        self._csv = csv.writer(out, lineterminator=line_end)

    def row(self, cells: Iterable[Any]) -> None:
        """Write one row, such as the heading."""
        self._csv.writerow(map(guarded, cells))

    def rows(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write several rows."""
        self._csv.writerows(map(guarded, cells) for cells in rows)
