"""How the command line asks for a sweep and prints all of it: values of flags, CSV."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from sizing.explore.sweeps.sweep import Sweep, shown_columns
from sizing.explore.sweeps.sweep_request import sweep_request_from
from sizing.explore.sweeps.table import cells
from sizing.spreadsheets import TableWriter

_RANGE = re.compile(r"(?P<start>[^.]+(?:\.\d+)?[^.]*)\.\.(?P<stop>[^:]+):(?P<num>\d+)(?::(?P<scale>linear|log))?")


def varied_value(text: str) -> Any:
    """The value of a flag: a list where there are commas, a range where there are two dots, else the text itself.

    >>> varied_value("1,2,4"), varied_value("20GB/s..1TB/s:10:log"), varied_value("13.8TB")
    (['1', '2', '4'], {'from': '20GB/s', 'to': '1TB/s', 'num': 10, 'scale': 'log'}, '13.8TB')
    """
    if match := _RANGE.fullmatch(text):
        scale = match["scale"] or "linear"
        return {"from": match["start"], "to": match["stop"], "num": int(match["num"]), "scale": scale}
    return text.split(",") if "," in text else text


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV; what is not known is empty."""
    writer = TableWriter(sys.stdout)
    writer.row(columns)
    writer.rows(rows)


def write_sweep_csv(document: object) -> None:
    """Print every row of a sweep as CSV while it is computed, and on standard error what has no answer.

    Raises InvalidInput.
    """
    asked = Sweep(sweep_request_from(document))
    writer = TableWriter(sys.stdout)
    for place, table in enumerate(map(shown_columns, asked.tables())):
        if place == 0:
            writer.row(table)
        writer.rows(zip(*map(cells, table.values()), strict=True))
    asked.require_some_answer()
    for refused in asked.refused:
        print(f"no answer for {refused.num_rows:,} rows: {refused.problem}", file=sys.stderr)
