"""Request bodies: read within their limits of bytes and time, and within the room for all bodies of a worker; unpacked.

A gzip body counts by what it unpacks to, and is unpacked no further than the limit: a bomb costs what an honest
body of the limit costs.
"""

from __future__ import annotations

import asyncio
import codecs
import collections
import contextlib
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator
from email.message import Message
from typing import Any

import pydantic_core
from fastapi import Request
from starlette.requests import ClientDisconnect

from service.errors import BodyTooLarge, BodyTooSlow, InvalidJson, UnsupportedMediaType
from sizing.errors import InvalidInput, Problem, shown

_GZIP = zlib.MAX_WBITS | 16
"""zlib's flag for a gzip header."""
_IDENTITY = "identity"


async def body_of(request: Request, *, max_bytes: int, max_seconds: float, take: Callable[[int], None]) -> bytes:
    """Read the body of a request as it is sent, and take room for it.

    Raises BodyTooLarge, BodyTooSlow, Busy, UnsupportedMediaType for what is packed otherwise than by gzip, or
    InvalidJson for a body that is not complete.
    """
    if encoding_of(request) not in ("gzip", _IDENTITY):
        rule, given = "must be gzip or identity", encoding_of(request)
        raise UnsupportedMediaType.of("content-encoding", rule, value=given, remedy="use one of these")
    declared = request.headers.get("content-length", "0")
    _limit(int(declared) if declared.isdecimal() else 0, max_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(max_seconds):
            async for chunk in request.stream():
                _limit(len(body) + len(chunk), max_bytes)
                take(len(chunk))
                body += chunk
    except ClientDisconnect:
        raise _incomplete() from None
    except TimeoutError:
        rule = f"must arrive within {max_seconds:g} seconds"
        raise BodyTooSlow.of("body", rule, value=None, remedy="send it faster") from None
    return bytes(body)


def encoding_of(request: Request) -> str:
    """Return how the body of a request is packed, in lower case."""
    return request.headers.get("content-encoding", _IDENTITY).strip().lower()


def unpack_gzip(body: bytes, *, max_bytes: int) -> bytes:
    """Unpack a body. Raises BodyTooLarge, or InvalidJson for what is not one complete stream of gzip."""
    decompressor = zlib.decompressobj(_GZIP)
    try:
        unpacked = decompressor.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise _no_gzip(str(error)) from None
    _limit(len(unpacked), max_bytes)
    if decompressor.unused_data:
        raise _no_gzip("data after its end")
    if body and not decompressor.eof:
        raise _incomplete()
    return unpacked


def _limit(num_bytes: int, max_bytes: int) -> None:
    if num_bytes > max_bytes:
        raise BodyTooLarge.of(
            "body", f"must have at most {max_bytes:,} bytes", value=None, remedy="send a smaller document"
        )


def _incomplete() -> Exception:
    return InvalidJson.of("body", "must be complete", value=None, remedy="send the whole body")


def _no_gzip(reason: str) -> Exception:
    return InvalidJson.of(
        "body", f"must be gzip ({reason})", value=None, remedy="compress it again, or send it without compression"
    )


MAX_FIELD_NAME_CHARACTERS = 200
"""The longest field has 50 characters; names are repeated in problems."""
MAX_FIELDS_OF_AN_OBJECT = 50_000
"""The largest have one for each node; each that is unknown is a fault, of 600 bytes: 30 MB in all."""
MAX_DEPTH = 200
"""Of pydantic's parser of JSON, whose limit is not open to change."""
MAX_VALUES = 1_500_000
"""An empty list takes three bytes of a body and 64 of memory, so that 15 MB of them took 370 MB. A result of 16 MiB has
900,000 numbers."""
MAX_BYTES_AT_ONCE = 8 * 1024
"""Larger bodies are parsed and validated in a thread, so that others need not wait: 5,000 tensors take 0.1 s, and 2 s
where each breaks rules."""

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def parse_json(body: bytes) -> Any:
    """Parse the document in a body.

    Raises InvalidJson for what is not JSON, repeats a field, has a NUL in a text, nests deeper than 200, or holds more
    values than MAX_VALUES.

    >>> parse_json(b'{"tensor": 8}')
    {'tensor': 8}
    """
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:  # before any value is made; some stand inside texts
        raise InvalidJson.of(
            "body", f"must hold at most {MAX_VALUES:,} values", value=None, remedy="send it in several documents"
        )
    try:
        pydantic_core.from_json(body, allow_inf_nan=False)  # the depth is limited here, and only here
        if b"\\u0000" in body and _NUL.search(body):
            rule = r"must not have \u0000 in a text"
            raise InvalidJson.of("body", rule, value=None, remedy="remove the character, which is NUL")
        return json.loads(body, object_pairs_hook=_parse_object, parse_float=_parse_number)
    except ValueError as error:
        raise explain_no_json(body, str(error)) from None


def explain_no_json(body: bytes, reason: str) -> InvalidInput:
    """Explain why a body is refused: by its field where it is JSON but for NaN or Infinity, which many programs write.

    >>> print(explain_no_json(b'{"tiers": [{"keep": NaN}]}', "expected value"))
    tiers.0.keep must be a finite number, as JSON has no other, got NaN: give a number, or null where there is none.
    """
    with contextlib.suppress(ValueError):
        found = next(infinite_numbers(pydantic_core.from_json(body)), None)
        if found is not None:
            rule, remedy = "must be a finite number, as JSON has no other", "give a number, or null where there is none"
            return InvalidJson([Problem(".".join(found[0]) or "body", rule, json.dumps(found[1]), remedy)])
    try:
        body.decode()
    except UnicodeDecodeError as error:
        rule = f"must be UTF-8, and is not at byte {error.start:,} (0x{body[error.start]:02x})"
        return InvalidJson.of("body", rule, value=None, remedy="save the document as UTF-8")
    remedy = "check quotes, commas and brackets; no number is null, truth is true or false"
    if body.startswith(codecs.BOM_UTF8):
        remedy = "save the document as UTF-8 without a byte order mark, which it begins with"
    elif b"\0" in body[:2]:
        remedy = "save the document as UTF-8; it looks like UTF-16"
    elif "recursion limit" in reason:
        remedy = f"send a document of at most {MAX_DEPTH} objects and lists inside each other"
    return InvalidJson.of("body", f"must be JSON ({reason})", value=None, remedy=remedy)


def infinite_numbers(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield the path and value of each NaN and infinite number in a document that is not nested deeply."""
    if isinstance(document, float) and not math.isfinite(document):
        yield path, document
    for name, value in document.items() if isinstance(document, dict) else ():
        yield from infinite_numbers(value, (*path, shown(name).strip("'")))
    for place, value in enumerate(document if isinstance(document, list) else ()):
        yield from infinite_numbers(value, (*path, str(place)))


class JsonRequest(Request):
    """Request whose JSON body is read within the limits and parsed strictly."""

    content = b""
    document: Any = None
    validated: Any = None
    """What the document stands for, where that was found out before the route did."""
    is_large = False
    """Whether others would have to wait while the body is unpacked, parsed or validated beside the event loop."""

    async def read(self, *, max_bytes: int, max_seconds: float, take: Callable[[int], None]) -> None:
        """Read the body, if there is one. Raises what `body_of` raises, or UnsupportedMediaType."""
        self.content = await body_of(self, max_bytes=max_bytes, max_seconds=max_seconds, take=take)
        if self.content:
            self._require_json_media_type()
            self.is_large = len(self.content) > MAX_BYTES_AT_ONCE or encoding_of(self) != _IDENTITY

    def parse(self, *, max_bytes: int, take: Callable[[int], None]) -> None:
        """Unpack and parse the body, and take room for what it unpacks to. Raises BodyTooLarge, Busy, InvalidJson."""
        if self.content and encoding_of(self) != _IDENTITY:
            self.content = unpack_gzip(self.content, max_bytes=max_bytes)
            take(len(self.content))
        if not self.content:
            remedy = "send a JSON document, with content-type application/json"
            raise InvalidJson.of("body", "must not be empty", value=None, remedy=remedy)
        self.document = parse_json(self.content)

    async def body(self) -> bytes:
        """Return the body that was read."""
        return self.content

    async def json(self) -> Any:
        """Return the parsed body, or the object already validated from it."""
        return self.document if self.validated is None else self.validated

    def _require_json_media_type(self) -> None:
        given = self.headers.get("content-type")
        header = Message()
        header["content-type"] = given or ""
        media_type, charset = header.get_content_type(), header.get_content_charset("utf-8")
        if media_type != "application/json" and not media_type.endswith("+json"):
            raise UnsupportedMediaType.of(
                "content-type", "must be application/json", value=given, remedy="set this header"
            )
        if charset not in ("utf-8", "utf8"):
            raise UnsupportedMediaType.of(
                "content-type", "must have charset utf-8, as JSON has", value=given, remedy="send UTF-8"
            )


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_FIELDS_OF_AN_OBJECT:
        rule = f"must have at most {MAX_FIELDS_OF_AN_OBJECT:,} fields in one object"
        raise InvalidJson.of("body", rule, value=f"{len(pairs):,}", remedy="send fewer in one document")
    document = dict(pairs)
    if len(document) != len(pairs):
        repeated, _ = collections.Counter(name for name, _ in pairs).most_common(1)[0]
        rule = "must not have a field twice in one object"
        raise InvalidJson.of("body", rule, value=repeated, remedy="keep one of the two")
    if any(len(name) > MAX_FIELD_NAME_CHARACTERS for name in document):
        rule = f"must have field names of at most {MAX_FIELD_NAME_CHARACTERS} characters"
        raise InvalidJson.of("body", rule, value=max(document, key=len), remedy="correct the quotes or the name")
    return document


def _parse_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number
