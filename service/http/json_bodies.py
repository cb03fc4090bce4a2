"""Request bodies that are JSON, and what counts as JSON.

Python's parser takes NaN, numbers too large for a float, and objects with a field twice; none of them is what
the sender meant. PostgreSQL keeps no NUL in a text. A body is refused by its depth before it becomes objects.
"""

from __future__ import annotations

import collections
import json
import math
import re
from typing import Any

import pydantic_core
from fastapi import Request
from starlette.concurrency import run_in_threadpool

from service.errors import InvalidJson, UnsupportedMediaType
from service.http.bodies import body_of
from sizing.errors import shown

MAX_FIELD_NAME_CHARACTERS = 200
"""The longest field has 50 characters; names are repeated in problems."""
MAX_FIELDS_OF_AN_OBJECT = 50_000
"""The largest have one for each node; each that is unknown is a fault, of 600 bytes: 30 MB in all."""
MAX_VALUES = 1_500_000
"""An empty list takes three bytes of a body and 64 of memory, so that 15 MB of them took 370 MB. A result of 16 MiB has
900,000 numbers."""
MAX_BYTES_AT_ONCE = 8 * 1024
"""Larger bodies are parsed and validated in a thread, so that others need not wait: 5,000 tensors take 0.1 s, and 2 s
where each breaks rules."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def parse_json(body: bytes) -> Any:
    """The document in a body.

    Raises InvalidJson for what is not JSON, repeats a field, has a NUL in a text, nests deeper than 200, or holds more
    values than MAX_VALUES.

    >>> parse_json(b'{"tensor": 8}')
    {'tensor': 8}
    """
    _require_few_values(body)
    try:
        pydantic_core.from_json(body, allow_inf_nan=False)  # the depth is limited here, and only here
        if b"\\u0000" in body and _NUL.search(body):
            raise ValueError(r"a text must not contain \u0000")
        return json.loads(body, object_pairs_hook=_object, parse_float=_finite)
    except ValueError as error:
        raise InvalidJson.of(
            "body", f"must be JSON ({error})", value=None, remedy="check quotes, commas and brackets"
        ) from None


class JsonRequest(Request):
    """A request whose JSON body has been read within the limits and parsed strictly."""

    content = b""
    document: Any = None
    validated: Any = None
    """What the document stands for, where that was found out before the route did."""

    async def read_document(self, *, max_bytes: int, max_seconds: float) -> None:
        """Read and parse the body, if there is one.

        Raises what `body_of` raises, UnsupportedMediaType or InvalidJson.
        """
        self.content = await body_of(self, max_bytes=max_bytes, max_seconds=max_seconds)
        if self.is_large:
            self._require_json_media_type()
            self.document = await run_in_threadpool(parse_json, self.content)
        elif self.content:
            self._require_json_media_type()
            self.document = parse_json(self.content)

    async def body(self) -> bytes:
        """The body that was read."""
        return self.content

    @property
    def is_large(self) -> bool:
        """Whether others would wait while it is parsed or validated."""
        return len(self.content) > MAX_BYTES_AT_ONCE

    async def json(self) -> Any:
        """The parsed body, or what it stands for, which validates at once."""
        return self.document if self.validated is None else self.validated

    def _require_json_media_type(self) -> None:
        given = self.headers.get("content-type")
        media_type = (given or "").partition(";")[0].strip().lower()
        if media_type != "application/json" and not media_type.endswith("+json"):
            raise UnsupportedMediaType.of(
                "content-type", "must be application/json", value=given, remedy="set this header"
            )


def _require_few_values(body: bytes) -> None:
    """Count what separates and begins values before any of them is made; a few are in texts."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise InvalidJson.of(
            "body", f"must hold at most {MAX_VALUES:,} values", value=None, remedy="send it in several documents"
        )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_FIELDS_OF_AN_OBJECT:
        raise ValueError(f"an object has more than {MAX_FIELDS_OF_AN_OBJECT:,} fields")
    document = dict(pairs)
    if len(document) != len(pairs):
        repeated, _ = collections.Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the field {shown(repeated)} occurs twice in one object")
    if any(len(name) > MAX_FIELD_NAME_CHARACTERS for name in document):
        raise ValueError(f"a field name is longer than {MAX_FIELD_NAME_CHARACTERS} characters")
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number
