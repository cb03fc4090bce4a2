"""The verbs that list the catalogs, as tables or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table
from rich.text import Text

from sizing.present.catalogs import Catalog
from sizing.terminal.output import console

Word = Annotated[str | None, typer.Argument(metavar="WORD", help="Only what has it in its name, or else in its line")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the entries as JSON, with all that is known of them")]


def listing_verb(catalog: Catalog) -> Callable[..., None]:
    """Make the verb that lists a catalog."""

    def list_entries(word: Word = None, *, as_json: AsJson = False) -> None:
        print_catalog(catalog, word, as_json=as_json)

    return list_entries


def print_catalog(catalog: Catalog, word: str | None, *, as_json: bool) -> None:
    """Print the entries of a catalog that have a word, line by line, or as REST lists them."""
    entries = catalog.search(word)
    if as_json:
        print(json.dumps([entry.document for entry in entries], indent=2, ensure_ascii=False))
        return
    if catalog.num_details and len(entries) == 1:
        table = Table.grid("", Column(overflow="fold"), padding=(0, 2))
        for column, cell in zip(catalog.columns, entries[0].cells, strict=True):
            table.add_row(column, Text(cell))
        console().print(table)
        return
    num_shown = len(catalog.columns) - catalog.num_details
    name, *others = catalog.columns[:num_shown]
    columns = (Column(name, no_wrap=True), *(Column(other, overflow="fold") for other in others))
    table = Table(*columns, box=box.SIMPLE_HEAD, show_lines=catalog.num_details > 0)
    for entry in entries:
        table.add_row(*map(Text, entry.cells[:num_shown]))
    console().print(table)
    if details := catalog.columns[num_shown:]:
        console().print(f"Name one for the rest ({', '.join(details)}): ckpt-size {catalog.verb} {entries[0].name}")
