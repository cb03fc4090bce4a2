"""Parse quantities that people write, as text with a unit, into base units.

Units may be typed in any case. Thus gb means bytes: where no letter is a capital, a small b does not mean bits.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from sizing.errors import broken_rule, with_point, without_points
from sizing.printed_numbers import with_commas
from sizing.units.scale import BINARY, DECIMAL, SECONDS_PER_DAY, SECONDS_PER_HOUR, SECONDS_PER_YEAR
from sizing.units.writing import rate_text

_BYTES_PER_UNIT = {f"{prefix}B": Decimal(factor) for prefix, factor in (DECIMAL.factors | BINARY.factors).items()}
_BYTES_PER_LOWERCASE_UNIT = {unit.lower(): factor for unit, factor in _BYTES_PER_UNIT.items()}
_BITS_PER_UNIT = {f"{prefix}b": Decimal(factor) for prefix, factor in DECIMAL.factors.items()} | {
    f"{prefix}{bit}".lower(): Decimal(factor) for prefix, factor in DECIMAL.factors.items() for bit in ("bit", "bits")
}
_SECONDS_PER_UNIT = {
    "us": Decimal("1e-6"),
    "µs": Decimal("1e-6"),
    "ms": Decimal("0.001"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Decimal(1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), Decimal(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Decimal(SECONDS_PER_HOUR)),
    **dict.fromkeys(("d", "day", "days"), Decimal(SECONDS_PER_DAY)),
    **dict.fromkeys(("w", "week", "weeks"), Decimal(7 * SECONDS_PER_DAY)),
    **dict.fromkeys(("y", "yr", "yrs", "year", "years"), Decimal(SECONDS_PER_YEAR)),
}
_OF_A_COUNT = {
    "": Decimal(1),
    **dict.fromkeys(("k", "thousand"), Decimal(10**3)),
    **dict.fromkeys(("m", "million"), Decimal(10**6)),
    **dict.fromkeys(("b", "bn", "billion"), Decimal(10**9)),
    **dict.fromkeys(("t", "tn", "trillion"), Decimal(10**12)),
}
"""Suffixes of a count, in lower case, each with its factor."""
_TERM = re.compile(r"\s*([0-9][0-9_,]*\.?[0-9]*(?:[eE][+-]?[0-9]{1,3})?|\.[0-9]+)\s*([A-Za-zµ]*)\s*")
_RATE = re.compile(r"(?P<amount>.*?)\s*(?P<ending>/\s*(?:s|sec|second)|ps)?\s*", re.IGNORECASE | re.DOTALL)
_RATE_IN_SMALL_LETTERS = re.compile(
    r"\s*(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9][0-9_]*)\.?[0-9]*\s*[kmgtpe]i?b\s*/\s*s(?:ec(?:ond)?)?\s*"
)
_PERCENT = re.compile(r"\s*([0-9]*\.?[0-9]+|[0-9]+\.)\s*%\s*")
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
"""What a number with commas must be: left out, a comma of decimals would make it ten times or more too large."""
_LEAST_IN_BYTES = 10**6
"""A rate without a unit from here on is taken for bytes per second, as CSV and JSON have it: 1 EB/s is beyond any."""
_LEAST_SIZE_IN_BYTES = 10**4
"""A size without a unit from here on is taken for bytes, as JSON and `ckpt-size inspect` have it: no checkpoint is
smaller, and GB are meant."""
_MAX_CHARACTERS = 64
"""Max length of a number with its unit: an endless text would take long to match."""


def parse_bytes(value: Any) -> Any:
    """Parse bytes from a whole number or from text with a unit; return any other value as it is.

    >>> parse_bytes("13.8 TB"), parse_bytes("2 TiB"), parse_bytes("4GiB"), parse_bytes(512)
    (13800000000000, 2199023255552, 4294967296, 512)

    Raises PydanticCustomError for text that is not a number of bytes, or so few of them without a unit that they may
    be meant as GB.
    """
    if isinstance(value, bool):
        raise broken_rule("must be a number of bytes", "give bytes as a number or as text: 13.8 TB")
    if isinstance(value, float):
        return _whole(value)
    if not isinstance(value, str):
        return value
    number, unit = _number_and_unit(value, "a size", "13.8 TB or 2 TiB")
    if _bits_per_unit(unit) is not None:
        raise broken_rule("must be bytes, not bits", "write B for bytes: 13.8 TB or 2 TiB")
    if 0 < number < _LEAST_SIZE_IN_BYTES and not unit:
        amount = value.strip()
        raise broken_rule("is a size without a unit", f"write the unit too, for example {amount} GB or {amount} B")
    factor = _bytes_per_unit(unit or "B")
    if len(unit) == 1 and _bytes_per_unit(f"{unit}B"):
        either = f"write {number:f}{unit.upper()}B, or {number:f}{unit.upper()}iB as du and lsblk count"
        raise broken_rule("could be powers of 1000 or of 1024", either)
    if factor is None:
        raise broken_rule("has an unknown unit of size", "use B, kB to EB or KiB to EiB: 13.8 TB")
    return round(number * factor)


def parse_bytes_per_second(value: Any) -> Any:
    """Parse bytes per second from a number or from text such as "273 GB/s" or "400 Gb/s".

    >>> parse_bytes_per_second("273 GB/s"), parse_bytes_per_second("500 gb/s"), parse_bytes_per_second("400 Gbit/s")
    (273000000000.0, 500000000000.0, 50000000000.0)

    Raises PydanticCustomError for text that is not a rate, has no unit, or could be bits as well as bytes.
    """
    if isinstance(value, bool):
        raise broken_rule("must be a rate", "give bytes per second or text: 273 GB/s")
    if not isinstance(value, str):
        return value
    parts = _RATE.fullmatch(value[: _MAX_CHARACTERS + 1])
    amount, ending = (parts["amount"], parts["ending"]) if parts else (value, None)
    number, unit = _number_and_unit(amount, "a rate", "273 GB/s or 400 Gb/s")
    if not unit:
        giga = number / DECIMAL.factors["G"] if number >= _LEAST_IN_BYTES else None
        example = amount.strip() if giga is None else f"{giga.normalize():f}"
        raise broken_rule("is a rate without a unit", f"write the unit too, for example {example} GB/s")
    if ending and ending.lower() == "ps" and (unit.islower() or ending.isupper()):
        raise broken_rule("could be bits or bytes", "write GB/s for bytes or Gb/s for bits")
    bits = _bits_per_unit(unit)
    factor = _bytes_per_unit(unit) if bits is None else bits / 8
    if factor is None or not ending:
        raise broken_rule("has an unknown unit of rate", "use GB/s or GiB/s (bytes) or Gb/s (bits): 273 GB/s")
    return float(number * factor)


def parse_seconds(value: Any) -> Any:
    """Parse seconds from a number or from text such as "4h", "90 s" or "1h 30min".

    >>> parse_seconds("4h"), parse_seconds("1hr 30 min"), parse_seconds(50.5)
    (14400.0, 5400.0, 50.5)

    Raises PydanticCustomError for text that is not a duration, or has no unit where it is not zero.
    """
    if isinstance(value, bool):
        raise broken_rule("must be a duration", "give seconds or text: 4h")
    if not isinstance(value, str):
        return value
    if len(value) > _MAX_CHARACTERS:
        raise broken_rule(f"must have at most {_MAX_CHARACTERS} characters", "write it shorter: 1h 30min")
    terms, rest = [], value
    while match := _TERM.match(rest):
        # Of single letters M could also mean months.
        terms.append((match[1], match[2] if match[2] == "M" else match[2].lower()))
        rest = rest[match.end() :]
    unitless_sum = len(terms) > 1 and any(not unit for _, unit in terms)
    if rest or not terms or unitless_sum:
        raise broken_rule("is not a duration", "write for example 4h, 90 s or 1h 30min")
    if terms[-1][1] in ("step", "steps"):
        raise broken_rule("is in steps", "give a time; an interval in steps is checkpoint.interval_steps")
    if any(unit not in _SECONDS_PER_UNIT for _, unit in terms if unit):
        raise broken_rule("has an unknown unit of time", "use ms, s, min, h, d, w or y: 4h")
    seconds = float(sum(_decimal(number) * _SECONDS_PER_UNIT[unit or "s"] for number, unit in terms))
    if seconds and not terms[0][1]:
        number = value.strip()
        remedy = f"write the unit too, for example {number}s, {number}min or {number}h"
        raise broken_rule("is a duration without a unit", remedy)
    return seconds


def parse_count(value: Any) -> Any:
    """Parse a whole number from text such as "400B", "1e12" or "70_000"; return any other value as it is.

    >>> parse_count("400B"), parse_count("1.5 billion"), parse_count("1e12"), parse_count(7)
    (400000000000, 1500000000, 1000000000000, 7)

    Raises PydanticCustomError for text that is not a number, or has a unit.
    """
    if isinstance(value, bool):
        raise broken_rule("must be a whole number", "give a whole number")
    if isinstance(value, str):
        number, unit = _number_and_unit(value, "a whole number", "400B or 1e12")
        factor = _OF_A_COUNT.get(unit.lower())
        if factor is None:
            raise broken_rule("is not a whole number", "write k, M, B or T behind it at most: 400B")
        return _whole(float(number * factor))
    return _whole(value) if isinstance(value, float) else value


def parse_fraction(value: Any) -> Any:
    """Parse a fraction of 1 from text in percent; return any other value as it is.

    >>> parse_fraction("5%"), parse_fraction("7.5 %"), parse_fraction("0.05")
    (0.05, 0.075, '0.05')
    """
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) and len(value) <= _MAX_CHARACTERS else None
    return float(_decimal(percent[1]) / 100) if percent else value


def rate_as_read(text: str) -> str | None:
    """Format how a rate in lower case, which does not tell bits from bytes, was parsed; None for any other text.

    >>> rate_as_read("500 gb/s"), rate_as_read("500 Gb/s"), rate_as_read("1,5 gb/s")
    ('500.0 GB/s', None, None)
    """
    if len(text) > _MAX_CHARACTERS or _RATE_IN_SMALL_LETTERS.fullmatch(text) is None:
        return None
    return rate_text(parse_bytes_per_second(text))


def _number_and_unit(text: str, what: str, example: str) -> tuple[Decimal, str]:
    match = _TERM.fullmatch(with_commas(text)) if len(text) <= _MAX_CHARACTERS else None
    if match is None and (remedy := without_points(text[:_MAX_CHARACTERS])):
        raise broken_rule("has points between thousands", remedy)
    if match is None:
        raise broken_rule(f"is not {what}", f"write for example {example}")
    return _decimal(match[1]), match[2]


def _bits_per_unit(unit: str) -> Decimal | None:
    """Return the bits of a unit: kb, Mb, Gb as written, or any case where "bit" is spelled out."""
    return _BITS_PER_UNIT.get(unit.lower() if "bit" in unit.lower() else unit)


def _bytes_per_unit(unit: str) -> Decimal | None:
    """Return the bytes of a unit in any case; None for a small b beside a capital, which means bits."""
    return _BYTES_PER_LOWERCASE_UNIT.get(unit.lower()) if unit.endswith("B") or unit.islower() else None


def _decimal(text: str) -> Decimal:
    if "," in text and not _THOUSANDS.fullmatch(text):
        raise broken_rule("has a comma that does not separate thousands", with_point(text))
    try:
        return Decimal(text.replace(",", "").replace("_", ""))
    except InvalidOperation:
        raise broken_rule("is not a number", "write digits, for example 13.8") from None


def _whole(value: float) -> float | int:
    """Convert a float to the whole number that it stands for: JSON writes 13.8e12 as a float."""
    if math.isfinite(value) and value.is_integer():
        return int(value)
    return value
