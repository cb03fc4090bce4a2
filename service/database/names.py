"""Types of the names that people give to what they store."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from sizing.errors import broken_rule

MAX_NAME_CHARACTERS = 100
"""Max length of a name: a line of a list."""
MAX_DESCRIPTION_CHARACTERS = 2000
"""Max length of a description: a page."""
MAX_KEY_CHARACTERS = 200
"""Max length of an idempotency key: a UUID has 36, and some put the names of what they send before it."""


def _require_one_line(name: str) -> str:
    if not name.isprintable() or name != name.strip():
        raise broken_rule("must be one line without spaces at its start and end", "give a name such as Llama on H100")
    return name


def _require_printable(text: str) -> str:
    if not all(character.isprintable() or character == "\n" for character in text):
        raise broken_rule("must be printable text", "remove control characters")
    return text


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS), AfterValidator(_require_one_line)]
"""A name: one line, printable."""

Slug = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
"""A name that stands in links: lower-case letters, digits, dots, underscores and hyphens."""

Description = Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARACTERS), AfterValidator(_require_printable)]
"""Some lines of printable text."""
