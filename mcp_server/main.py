"""Entry point of `ckpt-mcp`. Its server is imported later, so that an error can name a missing library."""

from __future__ import annotations

from typing import Annotated

import typer

from sizing.errors import InvalidInput
from sizing.terminal.program import Program, Version, program_app, run

_PROGRAM = Program("ckpt-mcp", extra="mcp", flags_elsewhere={"--host": "--http", "--port": "--http"})

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main() -> None:
    """Run `ckpt-mcp`."""
    run(_PROGRAM, _commands)


def _commands() -> typer.Typer:
    import anyio  # noqa: PLC0415 - see above

    from mcp_server import server  # noqa: PLC0415 - see above

    app = program_app(
        help="Answer programs that ask by the Model Context Protocol (MCP): each question of ckpt-size is a tool.",
        no_args_is_help=False,
        subcommand_metavar="",
    )

    @app.callback(invoke_without_command=True)
    def serve(
        http: Annotated[
            str | None,
            typer.Option(metavar="HOST:PORT", help="Answer by HTTP at /mcp. Default: on standard input and output"),
        ] = None,
        version: Version = False,  # noqa: ARG001 - its callback prints it
    ) -> None:
        if http is None:
            anyio.run(server.serve_standard_streams)
        else:
            server.serve_http(*parse_address(http))

    return app


def parse_address(text: str) -> tuple[str, int]:
    """Split the address to listen on. Raises InvalidInput for one beyond this machine, as nobody logs in here.

    >>> parse_address("127.0.0.1:8300")
    ('127.0.0.1', 8300)
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]")
    if host not in LOOPBACK or not port.isdecimal() or int(port) > 65535:
        remedy = "give one such as 127.0.0.1:8300, and a proxy with logins in front of it for other machines"
        raise InvalidInput.of("--http", "must be an address of this machine with a port", value=text, remedy=remedy)
    return host, int(port)


if __name__ == "__main__":
    main()
