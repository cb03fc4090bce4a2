"""A JSON object from an untrusted file: one object, no field twice, no NaN."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def json_object(text: bytes) -> dict[str, Any]:
    """The object that `text` is.

    >>> json_object(b'{"a": 1}')
    {'a': 1}

    Raises ValueError, with a reason, where it is none.
    """
    try:
        document = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    if not isinstance(document, dict):
        raise ValueError("it is not an object")
    return document


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a field is given twice in one object")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
