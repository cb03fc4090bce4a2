"""The verbs that list the catalogs."""

from __future__ import annotations

from typing import Annotated

import typer

from sizing.cli.catalogs import catalog_json, catalog_table
from sizing.cli.terminal import console
from sizing.summary.catalogs import CATALOGS, Catalog

Word = Annotated[str | None, typer.Argument(metavar="WORD", help="Only what has it in its name, or else in its line")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the entries as JSON, with all that is known of them")]


def add_catalog_verbs(app: typer.Typer) -> None:
    """A verb for each catalog that no verb of its own lists."""
    own = {command.name for command in app.registered_commands}
    for catalog in CATALOGS:
        if catalog.verb not in own:
            _add(app, catalog)


def _add(app: typer.Typer, catalog: Catalog) -> None:
    @app.command(catalog.verb, help=catalog.help)
    def listing(word: Word = None, *, as_json: AsJson = False) -> None:
        found = catalog.having(word)
        if as_json:
            print(catalog_json(found))
        else:
            console().print(catalog_table(catalog, found))
