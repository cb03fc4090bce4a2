"""`ckpt-serve`: the service, and the tokens that it takes.

Exit code 0 for a command that was done, 2 for what cannot be done or served as asked. A service that was told
to stop finishes its requests and ends by the signal that told it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import DBAPIError

from service.database import Database, backup, open_database, tokens
from service.database.engine import reason_of
from service.database.schema import migrated_database
from service.database.tables import SCOPES
from service.errors import validated
from service.listening import listen, prepared, url_of
from service.settings import Settings, require_known_variables, variable_of
from sizing import __version__
from sizing.errors import EXIT_BAD_INPUT, SizingError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
token_app = typer.Typer(help="Create, list and revoke the tokens that storing needs.", no_args_is_help=True)
app.add_typer(token_app, name="token")


def _help(setting: str) -> str:
    field = Settings.model_fields[setting]
    default = "a file in the data directory" if field.default_factory else field.default
    return f"{field.description}  [env: {variable_of(setting)}; default: {default}]"


def _option(setting: str) -> Any:
    ending = setting.rpartition("_")[2]
    metavar = {"bytes": "SIZE", "seconds": "TIME", "url": "URL", "host": "ADDRESS", "proxies": "ADDRESSES"}
    is_flag = Settings.model_fields[setting].annotation is bool
    flag = f"--{setting.replace('_', '-')}"
    return typer.Option(None, flag, metavar=None if is_flag else metavar.get(ending, "N"), help=_help(setting))


DatabaseUrl = Annotated[str | None, typer.Option("--database-url", metavar="URL", help=_help("database_url"))]


def main() -> None:
    """Run `ckpt-serve`."""
    try:
        app(prog_name="ckpt-serve")
    except SizingError as error:
        for line in str(error).splitlines():
            typer.echo(f"error: {line}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    except DBAPIError as error:
        typer.echo(
            f"error: the database failed ({reason_of(error)}): check that it is there, whole and has room.", err=True
        )
        sys.exit(EXIT_BAD_INPUT)


def ckpt_serve(context: typer.Context, *, version: bool, **flags: str | bool | None) -> None:
    """Serve checkpoint sizing over REST, until stopped. The commands below do something else instead."""
    if version:
        typer.echo(f"ckpt-serve {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is not None:
        return
    settings = _settings(**flags)
    with listen(settings.host, settings.port) as listener:
        serve = prepared(settings)
        typer.echo(f"Database {open_database(settings.database_url).name}")
        typer.echo(f"API pages on {url_of(listener)}/docs")
        serve(listener)


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the signature that typer reads: a flag for each setting."""
    flags: dict[str, tuple[Any, Any]] = {
        name: (bool | None if field.annotation is bool else str | None, _option(name))
        for name, field in Settings.model_fields.items()
    }
    version = (bool, typer.Option(False, "--version", help="Print the version."))
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=annotation)
                for name, (annotation, option) in (flags | {"version": version}).items()
            ),
        ]
    )
    return command


app.callback(invoke_without_command=True)(_with_settings(ckpt_serve))


@app.command("backup")
def backup_verb(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Copy a SQLite database as it is at this moment, also while it is served."""
    backup.back_up(_url(context, database_url), file.absolute())
    typer.echo(f"Backed up to {file}.")


@app.command("restore")
def restore_verb(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of ckpt-serve backup.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Put a backup in the place of a SQLite database; what was there is backed up beside it first."""
    before = backup.restore(_url(context, database_url), file.absolute())
    typer.echo(f"Restored from {file}." + (f" What was there before is in {before}." if before else ""))


@token_app.command("create")
def token_create(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="What the token is for; no two have the same.")],
    scope: Annotated[str, typer.Option(metavar="|".join(SCOPES), help="What it allows.")] = "write",
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="How long it holds, such as 90d.")] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a token and print it. It is shown this once."""
    new = validated(
        tokens.NewToken, lambda: tokens.NewToken.model_validate({"name": name, "scope": scope, "expires": expires})
    )
    typer.echo(tokens.create_token(_database(context, database_url), new))


@token_app.command("list")
def token_list(context: typer.Context, database_url: DatabaseUrl = None) -> None:
    """List the tokens, without their secrets."""
    table = Table("name", "scope", "state", "created", "expires", box=box.SIMPLE_HEAD)
    for row in tokens.list_tokens(_database(context, database_url)):
        moments = (f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "-" for moment in (row.created_at, row.expires_at))
        table.add_row(row.name, row.scope, row.state, *moments)
    Console(highlight=False).print(table)


@token_app.command("revoke")
def token_revoke(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="Its name.")],
    database_url: DatabaseUrl = None,
) -> None:
    """Make a token worthless, from the next request on."""
    tokens.revoke_token(_database(context, database_url), name)


def _database(context: typer.Context, url: str | None) -> Database:
    return migrated_database(_url(context, url))


def _url(context: typer.Context, url: str | None) -> str:
    """The database that the command names, or `ckpt-serve` before it, or else the settings."""
    before = context.find_root().params["database_url"]
    return _settings(database_url=before if url is None else url).database_url


def _settings(**flags: str | bool | None) -> Settings:
    require_known_variables()
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    return validated(Settings, lambda: Settings(**given))
