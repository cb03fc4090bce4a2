"""`ckpt-serve`: start the service, and manage its tokens."""

from __future__ import annotations

import errno
import socket
import sys
from datetime import timedelta
from typing import Annotated

import typer
import uvicorn
from pydantic import TypeAdapter, ValidationError
from rich import box
from rich.console import Console
from rich.table import Table
from sqlalchemy import Engine

from service.access import create_token, revoke_token, tokens
from service.app import create_app
from service.database.connection import opened, shown_url
from service.settings import Settings
from sizing.errors import InvalidInput, SizingError
from sizing.units import PositiveSeconds

EXIT_BAD_INPUT = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, invoke_without_command=True)
token_app = typer.Typer(no_args_is_help=True, help="Create, list and revoke the tokens that storing needs.")
app.add_typer(token_app, name="token")

DatabaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Database; or DATABASE_URL; or SQLite in the current folder"),
]


def main() -> None:
    """Run `ckpt-serve`; the exit code is 2 for bad input."""
    try:
        app()
    except SizingError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


@app.callback()
def serve(
    context: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on; loopback unless told otherwise")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on")] = 8000,
    database_url: DatabaseUrl = None,
) -> None:
    """Serve the REST API."""
    if context.invoked_subcommand is not None:
        return
    settings = _settings(database_url)
    engine = opened(settings.database_url)
    listener = _listening(host, port)
    address = f"http://{host}:{listener.getsockname()[1]}"
    print(f"Database {shown_url(engine)}")
    print(f"API pages on {address}/docs; try: curl {address}/v1/models", flush=True)
    server = uvicorn.Server(uvicorn.Config(create_app(engine, settings), log_level="warning", server_header=False))
    server.run(sockets=[listener])


@token_app.command("create")
def token_create(
    name: Annotated[str, typer.Option(help="Who holds it")],
    scope: Annotated[str, typer.Option(help="What it may do: write")] = "write",
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Lifetime: 90d; no end where not given")] = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a token and print its secret, once."""
    if scope != "write":
        raise InvalidInput.of("--scope", "must be write", value=scope, remedy="leave it out")
    print(create_token(_engine(database_url), name=name, scope="write", lifetime=_lifetime(expires)))


@token_app.command("list")
def token_list(database_url: DatabaseUrl = None) -> None:
    """List the tokens; their secrets are not kept."""
    table = Table("name", "scope", "created", "expires", "revoked", box=box.SIMPLE_HEAD)
    for token in tokens(_engine(database_url)):
        moments = (token.created_at, token.expires_at, token.revoked_at)
        table.add_row(token.name, token.scope, *(f"{m:%Y-%m-%d %H:%M}" if m else "-" for m in moments))
    Console().print(table)


@token_app.command("revoke")
def token_revoke(name: Annotated[str, typer.Option(help="Its name")], database_url: DatabaseUrl = None) -> None:
    """Let a token be of no use from now on."""
    revoke_token(_engine(database_url), name)
    print(f"Revoked {name}.")


def _settings(database_url: str | None) -> Settings:
    return Settings(database_url=database_url) if database_url else Settings()


def _engine(database_url: str | None) -> Engine:
    return opened(_settings(database_url).database_url)


def _lifetime(text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        return timedelta(seconds=TypeAdapter(PositiveSeconds).validate_python(text))
    except ValidationError:
        raise InvalidInput.of("--expires", "must be a duration", value=text, remedy="write 90d or 12h") from None


def _listening(host: str, port: int) -> socket.socket:
    """A socket bound to the address, before anything else starts.

    Raises InvalidInput where that cannot be.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        field, value = ("--port", str(port)) if in_use else ("--host", host)
        rule = f"must be free to listen on ({error.strerror})"
        raise InvalidInput.of(field, rule, value=value, remedy="choose another") from None
    return listener
