"""The verbs that list the catalogs."""

from __future__ import annotations

from typing import Annotated

import typer

from sizing.cli.catalogs import CATALOGS, Catalog
from sizing.cli.terminal import console

Word = Annotated[str | None, typer.Argument(metavar="WORD", help="Only what has it in its name, or else in its line")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the entries as JSON, with all that is known of them")]


def add_catalog_verbs(app: typer.Typer) -> None:
    """A verb for each catalog."""
    for catalog in CATALOGS:
        _add(app, catalog)


def _add(app: typer.Typer, catalog: Catalog) -> None:
    @app.command(catalog.verb, help=catalog.help)
    def listing(word: Word = None, *, as_json: AsJson = False) -> None:
        found = catalog.having(word)
        if as_json:
            print(catalog.json(found))
        else:
            console().print(catalog.table(found))
