"""How a verb ends that has failed."""

from __future__ import annotations

import typer

from io_bench.terminal import Terminal


def ended(message: str, exit_code: int, *, is_speaker: bool) -> typer.Exit:
    """The exception that ends the program with this exit code, once the message is said."""
    Terminal(is_speaker=is_speaker).say(message)
    return typer.Exit(exit_code)
