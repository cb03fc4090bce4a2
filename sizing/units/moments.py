"""Moments that people and programs give: date, time and time zone."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator

from sizing.errors import broken_rule


def _no_number(moment: object) -> object:
    """Not a number, nor one as text, which pydantic would read as seconds or milliseconds since 1970."""
    try:
        float(moment)  # type: ignore[arg-type]  # what is no number is refused or read later
    except (TypeError, ValueError):
        return moment
    raise broken_rule("must be a date and time", "write it as in 2026-11-21T12:00:00Z")


Moment = Annotated[AwareDatetime, BeforeValidator(_no_number)]
"""A moment with its time zone, as in RFC 3339."""
