"""The commands about tokens: create, list and revoke them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from service.cli.flags import DatabaseUrl, database_url_of
from service.database import Database, tokens
from service.database.schema import migrated_database
from service.database.tables import SCOPES
from service.errors import validated
from sizing.cli.console import program_app

token_app = program_app(help="Create, list and revoke the tokens that saving and publishing need.")


@token_app.command("create")
def token_create(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="Unique name of the token, such as its purpose.")],
    scope: Annotated[str, typer.Option(metavar="|".join(SCOPES), help="What the token allows.")] = "write",
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time until the token expires, such as 90d. Default: never.")
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Storage systems that it is for, such as scratch,home. Default: all."),
    ] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a token and print it. It is shown only once."""
    names = systems.split(",") if systems is not None else []
    asked = {"name": name, "scope": scope, "expires": expires, "systems": names}
    new = validated(tokens.NewToken, lambda: tokens.NewToken.model_validate(asked))
    typer.echo(tokens.create_token(_database(context, database_url), new))


@token_app.command("list")
def token_list(context: typer.Context, database_url: DatabaseUrl = None) -> None:
    """List the tokens, without their secrets."""
    table = Table("name", "scope", "state", "created", "expires", "storage systems", box=box.SIMPLE_HEAD)
    for row in tokens.list_tokens(_database(context, database_url)):
        moments = (f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "-" for moment in (row.created_at, row.expires_at))
        table.add_row(row.name, row.scope, row.state, *moments, ", ".join(row.systems or ["all"]))
    Console(highlight=False).print(table)


@token_app.command("revoke")
def token_revoke(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="Name of the token.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Revoke a token; it is refused from the next request on."""
    tokens.revoke_token(_database(context, database_url), name)


def _database(context: typer.Context, url: str | None) -> Database:
    return migrated_database(database_url_of(context, url))
