"""Request bodies that are JSON, and what counts as JSON.

Python's parser takes NaN, numbers too large for a float, and objects with a field twice; none of them is what
the sender meant. PostgreSQL keeps no NUL in a text. A body is refused by its depth before it becomes objects.
"""

from __future__ import annotations

import collections
import inspect
import json
import math
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pydantic_core
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from service.access import TokenWith
from service.bodies import body_of
from service.errors import InvalidJson, UnsupportedMediaType
from service.settings import Settings
from service.storing import in_turn
from sizing.errors import shown

LONGEST_FIELD_NAME = 200
MOST_BYTES_AT_ONCE = 64 * 1024
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
            raise ValueError(r"a text with \u0000 cannot be kept")
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
        if len(self.content) > MOST_BYTES_AT_ONCE:
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
                "content-type", "must be application/json", value=given, remedy="send this header"
            )


class JsonRoute(APIRoute):
    """A route that takes its body as a JsonRequest, once the token that it needs has been seen.

    Where it stores, it waits for its turn before it takes a thread.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, after the body has been read and parsed."""
        handler = super().get_route_handler()
        demands = [needed.call for needed in self.dependant.dependencies if isinstance(needed.call, TokenWith)]
        if any(demand.scope for demand in demands) and not inspect.iscoroutinefunction(self.endpoint):
            handler = in_turn(handler)
        if self.body_field is None:
            return handler

        async def handle(request: Request) -> Response:
            settings: Settings = request.app.state.settings
            for demand in demands or ([TokenWith()] if settings.require_login else []):
                await run_in_threadpool(demand, request)
            json_request = JsonRequest(request.scope, request.receive)
            await json_request.read_document(max_bytes=self.max_bytes(settings), max_seconds=settings.body_seconds)
            return await handler(json_request)

        return handle

    def max_bytes(self, settings: Settings) -> int:
        """The largest body that the route reads."""
        return settings.max_body_bytes


class ResultRoute(JsonRoute):
    """A route that takes benchmark results, which are larger than questions."""

    def max_bytes(self, settings: Settings) -> int:
        """The largest result document that is read."""
        return settings.max_result_bytes


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        repeated, _ = collections.Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the field {shown(repeated)} stands twice in one object")
    if any(len(name) > LONGEST_FIELD_NAME for name in document):
        raise ValueError(f"a field name is longer than {LONGEST_FIELD_NAME} characters")
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number
