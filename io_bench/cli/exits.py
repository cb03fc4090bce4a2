"""How a verb ends that has failed."""

from __future__ import annotations

import typer

from io_bench.terminal import Terminal
from sizing.cli.console import error_line


def ended(message: str, exit_code: int, *, is_speaker: bool) -> typer.Exit:
    """The exception that ends the program with this exit code, once the message is said."""
    for line in message.splitlines():
        Terminal(is_speaker=is_speaker).say(error_line(line))
    return typer.Exit(exit_code)
