"""What was found, as people read it."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from io_bench.cleaning.leftovers import RunPlace
from sizing.units import decimal_bytes_text


def places_table(places: Sequence[RunPlace]) -> Table:
    """One row per run."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("run", no_wrap=True)
    for column in ("by", "begun"):
        table.add_column(column)
    for column in ("files", "size"):
        table.add_column(column, justify="right")
    table.add_column("state")
    for place in places:
        manifest = place.manifest
        table.add_row(
            place.run_id,
            f"{manifest.user}@{manifest.host}" if manifest else "?",
            f"{manifest.created:%Y-%m-%d %H:%MZ}" if manifest else "?",
            f"{len(place.names):,}",
            decimal_bytes_text(place.num_bytes),
            place.state,
        )
    return table
