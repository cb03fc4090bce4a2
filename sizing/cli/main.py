"""`ckpt-size`: where it starts. Its verbs are imported later, without a search for garbage in what stays."""

from __future__ import annotations

import typer

from sizing.cli.console import Program, run
from sizing.cli.flags_elsewhere import FLAGS_ELSEWHERE

PROGRAM = Program("ckpt-size", flags_elsewhere=FLAGS_ELSEWHERE)


def main() -> None:
    """Run `ckpt-size`; the exit code is 0 for an answer, 1 for a missed target, 2 for bad input."""
    run(PROGRAM, _verbs)


def _verbs() -> typer.Typer:
    from sizing.cli.verbs import app  # noqa: PLC0415 - as said above

    return app
