"""Middleware for every response: HEAD where there is GET, headers that restrict a browser, and compression."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access.client import client_of
from service.errors import Busy, stopping
from service.http.accept import takes_gzip
from service.http.fair_room import FairRoom
from service.http.problems import refusal


class HeadAsGet:
    """Middleware that lets the routes answer HEAD as GET; the server leaves out the content."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        get_scope: Scope = {**scope, "method": "GET"}  # a copy, for the server looks at its own
        try:
            await self.app(get_scope, receive, send)
        finally:
            scope["route"] = get_scope.get("route")


SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class SecurityHeaders:
    """Middleware that sets SECURITY_HEADERS where a route has not set its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back with the headers."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)


class StoppedRequests:
    """Middleware that answers the requests that the server cancels as it stops: they took longer than it waits.

    `running` holds the tasks of requests in progress, so that who stops can wait for these answers.
    """

    def __init__(self, app: ASGIApp, *, running: set[asyncio.Task[Any]]) -> None:
        self.app = app
        self.running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back."""
        task = asyncio.current_task()
        if scope["type"] != "http" or task is None:
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        self.running.add(task)
        try:
            await self.app(scope, receive, send_and_note)
        except asyncio.CancelledError:
            if not has_begun:  # the server closes the connection of an answer that is cut
                await refusal(stopping())(scope, receive, send)
        finally:
            self.running.discard(task)


MIN_COMPRESSED_BYTES = 1024
"""Min size of what is compressed: less fits one packet anyway."""
_MAX_BYTES_AT_ONCE = 64 * 1024
"""Compressed in a millisecond beside the event loop; what is longer, in a thread."""
_LEVEL = 4
"""A trend of 1 MB takes 40 ms and becomes a fifth; level 9 takes eight times as long for 6 % less."""


class ResponseCompression:
    """Middleware that compresses what a route has not, by gzip.

    An answer with an ETag is left as it is: another form of it would need another tag (RFC 9110, section 8.8.3).
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back, compressed where that is of use."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        is_taken = takes_gzip(Headers(scope=scope).get("accept-encoding"))
        waiting_start: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal waiting_start
            if message["type"] == "http.response.start" and _is_compressible(Headers(raw=message["headers"])):
                waiting_start = message  # until its content is there
                return
            if waiting_start is not None:
                headers, content = MutableHeaders(scope=waiting_start), message.get("body", b"")
                headers.add_vary_header("Accept-Encoding")
                is_whole = not message.get("more_body", False)
                if is_taken and is_whole and len(content) >= MIN_COMPRESSED_BYTES:
                    content = await _compress(content)
                    headers["Content-Encoding"], headers["Content-Length"] = "gzip", str(len(content))
                    message = {**message, "body": content}
                start, waiting_start = waiting_start, None
                await send(start)
            await send(message)

        await self.app(scope, receive, send_compressed)


def _is_compressible(headers: Headers) -> bool:
    """Tell whether an answer is text that nobody has compressed."""
    media_type = headers.get("content-type", "").partition(";")[0].strip()
    is_text = media_type.startswith("text/") or media_type.endswith(("json", "xml"))
    return is_text and "content-encoding" not in headers and "etag" not in headers


async def _compress(content: bytes) -> bytes:
    if len(content) <= _MAX_BYTES_AT_ONCE:
        return gzip.compress(content, _LEVEL, mtime=0)
    return await run_in_threadpool(gzip.compress, content, _LEVEL, mtime=0)


MIN_HELD_BYTES = 1024**2
"""Min size of an answer that needs room: of smaller ones the kernel takes nearly all."""
_PIECE_BYTES = 256 * 1024
"""Bytes that are handed to the server at a time, which waits until the client has taken those before."""


class AnswersInRoom:
    """Middleware that sends large answers piece by piece, and refuses those that find no room beside others.

    An answer takes room until its client has taken it, which may last as long as `service.server` lets it.
    """

    def __init__(self, app: ASGIApp, *, room: FairRoom) -> None:
        self.app = app
        self.room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back."""
        waiting_start: Message | None = None

        async def send_within(message: Message) -> None:
            nonlocal waiting_start
            if message["type"] == "http.response.start":
                waiting_start = message  # until its content is there
                return
            start, waiting_start = waiting_start, None
            content = message.get("body", b"")
            if start is None or len(content) < MIN_HELD_BYTES:
                for each in filter(None, (start, message)):
                    await send(each)
                return
            with self.room.of(client_of(scope)) as take:
                try:
                    take(len(content))
                except Busy as error:
                    await refusal(error)(scope, receive, send)
                    return
                await send(start)
                for begin in range(0, len(content), _PIECE_BYTES):
                    is_last = begin + _PIECE_BYTES >= len(content)
                    more = message.get("more_body", False) or not is_last
                    await send({**message, "body": content[begin : begin + _PIECE_BYTES], "more_body": more})

        await self.app(scope, receive, send_within)
