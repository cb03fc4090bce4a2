"""Types of the fields that hold quantities, as numbers in base units or as text with a unit, and moments."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Base64Bytes,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from sizing.errors import broken_rule
from sizing.units.reading import parse_bytes, parse_bytes_per_second, parse_fraction, parse_seconds
from sizing.units.scale import SECONDS_PER_DAY

_Value = TypeVar("_Value")

MAX_BYTES = 10**21
"""A zettabyte: more than any site stores, so a number above is a typing error."""
MAX_SECONDS = 100.0 * 366 * SECONDS_PER_DAY
"""A century: no run lasts so long, so a number above is a typing error."""


def _between(least: float, least_text: str, most: float, most_text: str) -> Callable[[float], float]:
    """Return a validator of a quantity, whose error states the bounds with their unit."""

    def within(value: float) -> float:
        if value < least:
            raise broken_rule(f"must be at least {least_text}", f"give {least_text} or more")
        if value > most:
            raise broken_rule(f"must be at most {most_text}", f"give {most_text} or less")
        return value

    return within


def _schema(base: str, example: str, *, least: float, most: float) -> WithJsonSchema:
    number = {"type": base, "minimum": least, "maximum": most}
    return WithJsonSchema({"anyOf": [number, {"type": "string"}], "examples": [example]})


_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""Names that JSON Schema has for bounds, by pydantic's, which it writes where a bound stands behind a validator."""


class _OrText:
    """Annotation of a field whose validator reads text: the JSON Schema of input says so, that of answers does not.

    It stands last, so that it sees the bounds.
    """

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = {_BOUNDS.get(key, key): value for key, value in handler(schema).items()}
        if handler.mode == "serialization":
            return described
        kinds = described["anyOf"] if described.keys() == {"anyOf"} else [described]
        return {"anyOf": [*kinds, {"type": "string"}]}


OrText = Annotated[_Value, _OrText()]
"""Input: a value of a type whose validator reads text too."""

Fraction = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(parse_fraction)]
"""Input: a fraction of 1, or text in percent. The field that uses it states the bounds."""

ByteCount = Annotated[
    int,
    BeforeValidator(parse_bytes),
    AfterValidator(_between(1, "1 byte", MAX_BYTES, "1 ZB")),
    _schema("integer", "13.8 TB", least=1, most=MAX_BYTES),
]
"""Input: a number of bytes, at least 1."""

BytesPerSecond = Annotated[
    float,
    BeforeValidator(parse_bytes_per_second),
    Field(allow_inf_nan=False),
    AfterValidator(_between(1, "1 B/s", MAX_BYTES, "1 ZB/s")),
    _schema("number", "273 GB/s", least=1, most=float(MAX_BYTES)),
]
"""Input: bytes per second, at least 1."""

Seconds = Annotated[
    float,
    BeforeValidator(parse_seconds),
    Field(allow_inf_nan=False),
    AfterValidator(_between(0, "0 s", MAX_SECONDS, "100 years")),
    _schema("number", "90 s", least=0, most=MAX_SECONDS),
]
"""Input: a duration in seconds, 0 or more."""

PositiveSeconds = Annotated[
    float,
    BeforeValidator(parse_seconds),
    Field(allow_inf_nan=False),
    AfterValidator(_between(1e-3, "1 ms", MAX_SECONDS, "100 years")),
    _schema("number", "4h", least=1e-3, most=MAX_SECONDS),
]
"""Input: a duration in seconds, at least a millisecond."""


def _no_number(moment: object) -> object:
    """Refuse a number or its text, which pydantic would read as seconds or milliseconds since 1970."""
    try:
        float(moment)  # type: ignore[arg-type]  # what is no number is refused or read later
    except (TypeError, ValueError):
        return moment
    raise broken_rule("must be a date and time", "write it as in 2026-11-21T12:00:00Z")


def _in_utc(moment: datetime) -> datetime:
    """Convert a moment to UTC; refuse one that UTC's calendar cannot hold."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise broken_rule("must lie in the years 1 to 9999 of UTC", "write it as in 2026-11-21T12:00:00Z") from None


def require_base64(content: object) -> object:
    """Check for a validator that a text is base64 with its padding; lines may end in it (RFC 4648, section 4)."""
    try:
        if isinstance(content, str):
            base64.b64decode("".join(content.splitlines()), validate=True)
    except ValueError:
        raise broken_rule(
            "must be base64 with its padding", "encode the bytes of the file, as base64 FILE does"
        ) from None
    return content


FileContent = Annotated[Base64Bytes, BeforeValidator(require_base64)]
"""Bytes of a file, in base64."""

Moment = Annotated[AwareDatetime, BeforeValidator(_no_number), AfterValidator(_in_utc)]
"""A moment with its time zone, as in RFC 3339."""
