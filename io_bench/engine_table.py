"""The engines for people who choose one."""

from __future__ import annotations

from rich import box
from rich.table import Table

from io_bench.engines import ENGINES


def engine_table() -> Table:
    """Every engine by its name, and for whom it is."""
    table = Table("engine", "writes", box=box.SIMPLE_HEAD)
    for name, entry in ENGINES.items():
        table.add_row(name, entry.summary)
    return table
