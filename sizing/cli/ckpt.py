"""`ckpt`: one name for all programs."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points

from sizing.terminal.program import ONE_NAME, PROGRAMS, fail


def main() -> None:
    """Run the program that the first word names; with a word that names none, `ckpt-size`.

    Where a shell asks what may come next, the words are those of the line that it completes.
    """
    words = sys.argv
    if f"_{ONE_NAME.upper()}_COMPLETE" in os.environ:
        words = os.environ.get("COMP_WORDS", os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
    name = words[1] if len(words) > 1 and words[1] in PROGRAMS else "size"
    found = list(entry_points(group="console_scripts", name=f"{ONE_NAME}-{name}"))
    if not found:
        fail([f"{ONE_NAME}-{name} is not installed: pip install checkpoint-sizing."])
    found[0].load()()
