"""Numbers of a document typed as answers print them: `2,048`, `$2.80`, `3,072 USD`, `USD 3,072`.

A comma counts only where three digits stand behind it and no 0 begins the number, as it then separates thousands in
every number that is printed; so do a space and an apostrophe.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sizing.errors import InvalidInput, explain
from sizing.field_paths import value_at, with_fields

CURRENCY_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥"}
"""Signs of currencies whose sign stands before the amount in English, as in ISO 4217 and CLDR."""

_PRINTED = re.compile(
    r"\s*(?:(?P<sign>[$€£¥])|(?P<front>[A-Z]{3})(?=[\s\d]))?\s*(?P<number>[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)\s*(?(front)|(?P<code>[A-Z]{3})?)\s*"
)
_SPACED_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}([ \u00a0\u2009\u202f'\u2019])\d{3}(?:\1\d{3})*(?!\d)")
"""Groups of three digits with one mark between them: a space of any width, or an apostrophe."""
_COUNT, _NUMBER = ("int_parsing", "int_type"), ("float_parsing", "float_type")
"""Pydantic's kinds of error for a text that is no number; a count has no currency."""
_Model = TypeVar("_Model", bound=BaseModel)


def with_commas(text: str) -> str:
    """Write commas between thousands that spaces or apostrophes separate.

    Source: the SI brochure (BIPM, 9th edition, section 5.4.4) for spaces; banks in Switzerland write apostrophes.

    >>> with_commas("90 000"), with_commas("$ 1'500'000.50"), with_commas("12 34")
    ('90,000', '$ 1,500,000.50', '12 34')
    """
    return _SPACED_THOUSANDS.sub(lambda found: found[0].replace(found[1], ","), text)


def read_count(text: str) -> int | None:
    """Read a whole number that is typed as printed; None where a text is none.

    >>> read_count("2,048"), read_count("2048"), read_count("20,48"), read_count("$2,048")
    (2048, 2048, None, None)
    """
    found = _PRINTED.fullmatch(with_commas(text))
    is_count = found is not None and not _is_money(found) and _plain(found).isdecimal()
    return int(_plain(found)) if found is not None and is_count else None


def validate_as_printed(model: type[_Model], document: object) -> _Model:
    """Validate a document, in which numbers may stand as they are printed.

    Raises InvalidInput with one problem for each field that breaks a rule, and for a price in another currency than the
    others.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        plain = with_plain_numbers(document, error)
        if plain is None:
            raise explain(error, model) from None
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise explain(error, model) from None


def with_plain_numbers(document: object, error: ValidationError) -> dict[str, Any] | None:
    """Write numbers that stand as printed where a document breaks rules plainly; None where there are none.

    Raises InvalidInput for a price in another currency than the others.
    """
    numbers = _find_printed(document, error)
    if not isinstance(document, dict) or not numbers:
        return None
    _require_one_currency(document, numbers)
    return with_fields(document, {path: _plain(found) for path, found in numbers.items()})


def _find_printed(document: object, error: ValidationError) -> dict[str, re.Match[str]]:
    """Find the texts that stand where a number must, and are one as printed, by dotted path."""
    found = {}
    for problem in error.errors(include_url=False, include_context=False):
        path, value = ".".join(map(str, problem["loc"])), problem["input"]
        is_count = problem["type"] in _COUNT
        if not isinstance(value, str) or not (is_count or problem["type"] in _NUMBER):
            continue
        match = _PRINTED.fullmatch(with_commas(value))
        if match is None or _plain(match) == value:  # which is no count: 2.5
            continue
        if not (is_count and _is_money(match)) and value_at(document, path) == value:
            found[path] = match
    return found


def _is_money(found: re.Match[str]) -> bool:
    return bool(found["sign"] or found["front"] or found["code"])


def _plain(found: re.Match[str]) -> str:
    return found["number"].replace(",", "")


def _require_one_currency(document: dict[str, Any], numbers: dict[str, re.Match[str]]) -> None:
    """Refuse prices in several currencies, as nothing here knows a rate of exchange."""
    named = document.get("currency")
    wanted = CURRENCY_SIGNS.get(named, named) if isinstance(named, str) else None
    for path, found in numbers.items():
        code = found["front"] or found["code"]
        given = found["sign"] or CURRENCY_SIGNS.get(code or "", code)
        if given is None:
            continue
        if wanted is None or (given == "$" and wanted not in CURRENCY_SIGNS.values() and not code):
            wanted = wanted or given  # a dollar of Canada has the same sign
        elif given != wanted:
            rule = f"must be in the currency of the other prices, {named or wanted}"
            raise InvalidInput.of(path, rule, value=found[0].strip(), remedy="convert it")
