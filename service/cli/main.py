"""`ckpt-serve`: the service, and the tokens that it takes.

Exit code 0 for a command that was done, 2 for what cannot be done or served as asked. A service that was told
to stop finishes its requests and ends by the signal that told it.
"""

from __future__ import annotations

import sys

import typer
from sqlalchemy.exc import DBAPIError

from service.cli.backups import backup, restore
from service.cli.flags import settings_of, with_settings
from service.cli.tokens import token_app
from service.database import open_database
from service.database.connection import reason_of
from service.server.listening import listen, prepared, url_of
from sizing import __version__
from sizing.errors import EXIT_BAD_INPUT, SizingError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
app.add_typer(token_app, name="token")
for verb in (backup, restore):
    app.command()(verb)


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
            f"error: the database failed ({reason_of(error)}): check that it exists, is undamaged and has free space.",
            err=True,
        )
        sys.exit(EXIT_BAD_INPUT)


@app.callback(invoke_without_command=True)
@with_settings
def ckpt_serve(context: typer.Context, *, version: bool, **flags: str | bool | None) -> None:
    """Serve checkpoint sizing over REST until stopped, or run one of the commands below."""
    if version:
        typer.echo(f"ckpt-serve {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is not None:
        return
    settings = settings_of(**flags)
    with listen(settings.host, settings.port) as listener:
        serve = prepared(settings)
        typer.echo(f"Database {open_database(settings.database_url).name}")
        typer.echo(f"API pages on {url_of(listener)}/docs")
        serve(listener)
