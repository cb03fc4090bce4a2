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
MAX_BYTES_AT_ONCE = 64 * 1024
"""Larger bodies are parsed in a thread, so that others need not wait."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def parse_json(body: bytes) -> Any:
    """The document in a body.

    Raises InvalidJson for what is not JSON, repeats a field, has a NUL in a text, or nests deeper than 200.

    >>> parse_json(b'{"tensor": 8}')
    {'tensor': 8}
    """
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

    async def read_document(self, *, max_bytes: int, max_seconds: float) -> None:
        """Read and parse the body, if there is one.

        Raises what `body_of` raises, UnsupportedMediaType or InvalidJson.
        """
        self.content = await body_of(self, max_bytes=max_bytes, max_seconds=max_seconds)
        if len(self.content) > MAX_BYTES_AT_ONCE:
            self._require_json_media_type()
            self.document = await run_in_threadpool(parse_json, self.content)
        elif self.content:
            self._require_json_media_type()
            self.document = parse_json(self.content)

    async def body(self) -> bytes:
        """The body that was read."""
        return self.content

    async def json(self) -> Any:
        """The parsed body."""
        return self.document

    def _require_json_media_type(self) -> None:
        given = self.headers.get("content-type")
        media_type = (given or "").partition(";")[0].strip().lower()
        if media_type != "application/json" and not media_type.endswith("+json"):
            raise UnsupportedMediaType.of(
                "content-type", "must be application/json", value=given, remedy="set this header"
            )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
