"""Program `ckpt-serve`: its commands, and the service itself, which it runs without a command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import DBAPIError

from service.cli.flags import DatabaseUrl, as_given, database_url_of, settings_of, with_settings
from service.database import Database, open_database, schema, tokens
from service.database import backup as database_backup
from service.database.connection import reason_of
from service.database.schema import migrated_database
from service.database.tables import SCOPES
from service.errors import CannotServe, validated
from service.settings import Settings
from sizing.errors import InvalidInput
from sizing.loading import loading
from sizing.terminal.program import Verbs, program_app
from sizing.terminal.verb_help import FewFlags

AGENTS = ("publish-only", "publish")
"""Scopes of agents, whose tokens lie on many nodes: a lost one must not speak for every storage system."""

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
        typer.Option(
            metavar="NAMES",
            help="Storage systems that it is for, such as scratch,home; '*' for all. Default: all, but with a scope to "
            "publish they must be given.",
        ),
    ] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a token and print it. It is shown only once."""
    if scope in AGENTS and systems is None:
        remedy = "give --systems scratch,home, or --systems '*' for all"
        raise InvalidInput.of("systems", f"must be given with scope {scope}", value=None, remedy=remedy)
    names = [] if systems in (None, "*") else str(systems).split(",")
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


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to create.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Back up a SQLite database to a new file, also while the service runs."""
    database_backup.back_up(database_url_of(context, database_url), file.absolute())
    typer.echo(f"Backed up to {file}.")


def restore(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Backup file, made by ckpt-serve backup.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Replace a SQLite database by a backup; the previous database is backed up first."""
    before = database_backup.restore(database_url_of(context, database_url), file.absolute())
    typer.echo(f"Restored from {file}." + (f" The previous database is in {before}." if before else ""))


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


class _Commands(FewFlags, Verbs):
    """Commands of the program. A failing database counts as bad input, and problems name what was typed."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command and return its result."""
        try:
            return super().invoke(ctx)
        except InvalidInput as error:
            raise as_given(error, sys.argv) from None
        except DBAPIError as error:
            remedy = "check that it exists, is undamaged and has free space"
            raise CannotServe.of("the database", f"failed ({reason_of(error)})", value=None, remedy=remedy) from None


app = program_app(
    verbs=_Commands,
    help="Serve checkpoint sizing over REST until stopped, or run one of the commands below.",
    no_args_is_help=False,
)
app.add_typer(token_app, name="token")
for verb in (migrate, backup, restore):
    app.command()(verb)


@app.callback(invoke_without_command=True)
@with_settings
def ckpt_serve(context: typer.Context, **flags: str | bool | None) -> None:
    """What it does without a command; one that follows finds the database URL in its context."""
    context.obj = flags["database_url"]
    if context.invoked_subcommand is not None:
        return
    settings = settings_of(**{name: value for name, value in flags.items() if name in Settings.model_fields})
    with loading():
        from service.server.listening import listen, prepare_server, url_of  # noqa: PLC0415 - no command needs the routes

    with listen(settings.host, settings.port) as listener:
        serve = prepare_server(settings)
        typer.echo(f"Database {open_database(settings.database_url).name}")
        typer.echo(f"API pages on {url_of(listener)}/docs")
        serve(listener)
