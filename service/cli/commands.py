"""The commands of `ckpt-serve`, and the service itself, which is what it does without one."""

from __future__ import annotations

import sys
from typing import Any

import typer
from sqlalchemy.exc import DBAPIError

from service.cli.backups import backup, restore
from service.cli.flags import as_given, settings_of, with_settings
from service.cli.migration import migrate
from service.cli.tokens import token_app
from service.database import open_database
from service.database.connection import reason_of
from service.errors import CannotServe
from service.settings import Settings
from sizing.cli.console import Verbs, program_app
from sizing.cli.loading import loading
from sizing.errors import InvalidInput


class _Commands(Verbs):
    """The commands, where a database that fails is bad input, too, and problems name what was typed."""

    def invoke(self, ctx: Any) -> Any:
        """What the command returns."""
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
    """What it does without a command."""
    if context.invoked_subcommand is not None:
        return
    settings = settings_of(**{name: value for name, value in flags.items() if name in Settings.model_fields})
    with loading():
        from service.server.listening import listen, prepared, url_of  # noqa: PLC0415 - no command needs the routes

    with listen(settings.host, settings.port) as listener:
        serve = prepared(settings)
        typer.echo(f"Database {open_database(settings.database_url).name}")
        typer.echo(f"API pages on {url_of(listener)}/docs")
        serve(listener)
