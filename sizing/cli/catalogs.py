"""The catalogs as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich import box
from rich.table import Column, Table
from rich.text import Text

from sizing.summary.catalogs import Catalog, Entry


def catalog_table(catalog: Catalog, entries: Sequence[Entry]) -> Table:
    """Entries line by line."""
    name, *others = catalog.columns
    columns = (Column(name, no_wrap=True), *(Column(other, overflow="fold") for other in others))
    table = Table(*columns, box=box.SIMPLE_HEAD, show_lines=catalog.has_lines)
    for entry in entries:
        table.add_row(*map(Text, entry.cells))
    return table


def catalog_json(entries: Sequence[Entry]) -> str:
    """Entries as REST lists them."""
    return json.dumps([entry.document for entry in entries], indent=2, ensure_ascii=False)
