"""Refuse bodies that are large, deep or ambiguous before anything else parses them."""

from __future__ import annotations

from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.problems import problem_response
from sizing.documents import parsed_json
from sizing.errors import printable

DEEPEST_NESTING = 50


class BodyCheck:
    """ASGI middleware that reads at most `max_bytes` of a body and passes on what it has read."""

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an unfit body, hand on every other."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = await self._read(receive)
        if body is None:
            detail = f"The body is larger than {self.max_bytes} bytes: send less."
            refusal = problem_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", detail)
            await refusal(scope, receive, send)
            return
        if is_too_deep(body):
            detail = f"The body nests more than {DEEPEST_NESTING} levels deep: no scenario does."
            await problem_response(HTTPStatus.BAD_REQUEST, "too-deep", detail)(scope, receive, send)
            return
        if (reason := _not_json(scope, body)) is not None:
            detail = f"The body is not valid JSON: {reason}."
            await problem_response(HTTPStatus.BAD_REQUEST, "invalid-json", detail)(scope, receive, send)
            return
        await self.app(scope, _replaying(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        """The body, or None where it is too large."""
        chunks, size, more = [], 0, True
        while more:
            message = await receive()
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self.max_bytes:
                return None
            chunks.append(chunk)
            more = message.get("more_body", False)
        return b"".join(chunks)


def is_too_deep(body: bytes) -> bool:
    """Whether a JSON body nests too deep. Brackets inside strings count too, which only refuses more.

    >>> is_too_deep(b"[" * 51), is_too_deep(b"[[]]" * 51)
    (True, False)
    """
    if body.count(b"[") + body.count(b"{") <= DEEPEST_NESTING:
        return False
    depth = deepest = 0
    for byte in body:
        depth += (byte in b"[{") - (byte in b"]}")
        deepest = max(deepest, depth)
    return deepest > DEEPEST_NESTING


def _not_json(scope: Scope, body: bytes) -> str | None:
    """Why a body that claims to be JSON is none that can be taken: broken, or with a field that stands twice."""
    content_type = dict(scope["headers"]).get(b"content-type", b"")
    if not body or b"json" not in content_type:
        return None
    try:
        parsed_json(body)
    except (ValueError, RecursionError) as error:
        return printable(str(error))
    return None


def _replaying(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
