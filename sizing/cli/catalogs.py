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
    name, *others = catalog.columns
    columns = (Column(name, no_wrap=True), *(Column(other, overflow="fold") for other in others))
    table = Table(*columns, box=box.SIMPLE_HEAD, show_lines=catalog.has_lines)
    for entry in entries:
        table.add_row(*map(Text, entry.cells))
    console().print(table)
