"""`ckpt`: one name for all programs."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points

import typer

from sizing.terminal.program import fail

PROGRAMS = {
    "size": "what storage a training cluster needs for its checkpoints",
    "bench": "writes and restores real checkpoints on the nodes, and calibrates the answer",
    "serve": "answers by REST, and with a page",
    "mcp": "answers programs that ask by the Model Context Protocol",
}
"""What each program does. Words that name none are meant for the first."""


def main() -> None:
    """Run the program that the first word names; with a word that names none, `ckpt-size`."""
    first = next(iter(sys.argv[1:]), "--help")
    if first in ("-h", "--help"):
        lines = [f"  ckpt {name:<6} {what} (ckpt-{name})" for name, what in PROGRAMS.items()]
        typer.echo("\n".join(["Usage: ckpt PROGRAM ...", "", *lines, "", "Without a program: ckpt size ..."]))
        return
    name = first if first in PROGRAMS else "size"
    program = f"ckpt-{name}"
    found = list(entry_points(group="console_scripts", name=program))
    if not found:
        fail([f"{program} is not installed: pip install checkpoint-sizing."])
    sys.argv = [program, *sys.argv[2 if first in PROGRAMS else 1 :]]
    found[0].load()()
