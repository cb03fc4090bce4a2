"""The command that brings the schema of the database to this version's."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.flags import DatabaseUrl, database_url_of
from service.database import open_database, schema


def migrate(
    context: typer.Context,
    database_url: DatabaseUrl = None,
    contract: Annotated[
        bool,
        typer.Option(
            "--contract",
            help="Also drop what only versions need that do not know the present schema; once none of them runs.",
        ),
    ] = False,
) -> None:
    """Bring the database to the schema of this version, beside instances of the version before."""
    database = open_database(database_url_of(context, database_url))
    try:
        state = schema.migrate(database, contract=contract)
    finally:
        database.close()
    typer.echo(f"The schema is revision {state.revision}; it serves versions that know {state.serves_from}.")
    if state.left:
        waiting = ", ".join(script.revision for script in state.left)
        typer.echo(
            f"Waiting: {waiting}. Run ckpt-serve migrate --contract "
            f"once no version runs that does not know {state.revision}."
        )
