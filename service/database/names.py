"""The names that people give to what they store."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from sizing.errors import broken_rule

LONGEST_NAME = 100


def _one_line(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise broken_rule("must be one line with no blank at either end", "give a name such as Llama on H100")
    return name


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_one_line)]
"""A name: one line, printable."""
