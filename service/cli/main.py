"""Entry point of `ckpt-serve`. Its commands are imported later, so that an error can name a missing library.

Exit code 0 for a command that was done, 2 for what cannot be done or served as asked. A service that was told
to stop finishes its requests and ends by the signal that told it.
"""

from __future__ import annotations

import typer

from sizing.terminal.program import Program, run

_PROGRAM = Program(
    "ckpt-serve",
    extra="service",
    flags_elsewhere={
        "--bind": "--host",
        "--listen": "--host",
        "--address": "--host",
        "--db": "--database-url",
        "--database": "--database-url",
        "--num-workers": "--workers",
        "--processes": "--workers",
    },
)
"""The program, with the names that uvicorn and gunicorn have for its flags."""


def main() -> None:
    """Run `ckpt-serve`."""
    run(_PROGRAM, _commands)


def _commands() -> typer.Typer:
    from service.cli.commands import app  # noqa: PLC0415 - see above

    return app
