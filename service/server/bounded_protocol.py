"""HTTP protocol of uvicorn with limits: on connections, on bytes that are kept, and on the time of each phase.

uvicorn bounds what it keeps of a body, and the time between two requests. It does not bound the time to send a head,
the head itself, requests sent ahead of their answers, the rest of a body after its answer, or the time to take an
answer. Without a proxy, each of these lets one client fill the memory or the connections of the service
(docs/decisions/0010-bounds-at-the-socket.md).
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, ClassVar, Literal

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from service.errors import HeadTooLarge, busy
from service.http.problems import MALFORMED, refusal
from service.middleware.responses import SECURITY_HEADERS
from service.server.connection_limits import ConnectionLimits
from service.settings import Settings
from service.telemetry import Metrics
from sizing.errors import Problem

MAX_HEAD_BYTES = 64 * 1024
"""Max bytes of the request line and the headers, and again of the trailers. Proxies and browsers stop at 8 to 32
KiB."""
MAX_REQUESTS_AHEAD = 8
"""Sent on a connection before the first of them is answered. Browsers and proxies send none."""
SECONDS_TO_KEEP_ALIVE = 75
"""Max age of an idle connection: longer than proxies keep it (60 s), or they send into one that is just being
closed."""

_HOST = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*", re.ASCII)
"""A name or address and perhaps a port, or nothing: RFC 3986, section 3.2.2."""
_ONCE = (b"host", b"authorization", b"content-type", b"idempotency-key")
"""Headers of which a request has one: of two, a proxy in front may read the other (RFC 9110, section 5.3)."""
_SECONDS_BETWEEN_LOOKS = 1.0
"""A tenth of the shortest phase: no phase lasts much longer than it may."""

_Phase = Literal["head", "body", "write", "close", "idle", "answer"]

SECONDS_OF: dict[_Phase, float] = {
    "head": 20,  # from the connection, or the first byte of a further request, to the last header; as Apache has it
    "body": 30,  # what still comes of a body that is answered already
    "write": 60,  # for the client to take what is sent ahead of it; at 20 kB/s a PDF of 1 MB
    "close": 10,  # for the client to take the end of what was sent, after that was all
    "idle": SECONDS_TO_KEEP_ALIVE + 5,  # where uvicorn's timer was stopped by bytes that are no request
}
"""The max time of each phase of a connection. The phase of an answer has the limits of its route."""


class BoundedProtocol(HttpToolsProtocol):
    """Connection of a client. A subclass of it belongs to one server, whose `limits` it keeps."""

    limits: ClassVar[ConnectionLimits]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._entered_from: str | None = None
        self._num_messages = 0
        self._is_in_head = True
        self._is_in_message = False
        self._num_kept_bytes = 0
        self._num_head_bytes = 0
        self._is_too_large = False
        self._rule = "must be HTTP/1.1"
        self._single_headers: list[tuple[bytes, bytes]] = []
        self._cycles: list[RequestResponseCycle] = []
        self._seen: tuple[_Phase, int] = ("head", 0)
        self._num_looks = 0
        self._look_again: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Handle a new connection, which is refused where there are too many."""
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        if not self.limits.enter(host, self):
            self._send_last(refusal(busy()))
            return
        self._entered_from = host
        self._look_again = self.loop.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection. Of requests sent ahead, uvicorn reports only the last, perhaps unbegun."""
        for cycle in self._cycles:
            cycle.disconnected = cycle.disconnected or not cycle.response_complete
            cycle.message_event.set()
        super().connection_lost(exc)
        if self._look_again is not None:
            self._look_again.cancel()
        if self._entered_from is not None:
            self.limits.leave(self._entered_from, self)
            self._entered_from = None

    def data_received(self, data: bytes) -> None:
        """Handle received bytes. The parser keeps what is neither a whole head nor a body, and it is counted."""
        if self.transport.is_closing():
            return
        self._num_kept_bytes += len(data)
        super().data_received(data)
        if self._num_kept_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._is_too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Handle the first byte of a request."""
        super().on_message_begin()
        self._num_messages += 1
        self._is_in_head = self._is_in_message = True
        self._num_head_bytes = 0
        self._single_headers = []

    def on_url(self, url: bytes) -> None:
        """Handle a part of the request's target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header, or a trailer after the body."""
        self._count(len(name) + len(value))
        if name.lower() in _ONCE and self._is_in_head:
            self._single_headers.append((name.lower(), value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Handle the complete head: the request begins, or waits for those before it."""
        self._is_in_head = False
        self._num_kept_bytes = 0
        self._require_single_headers()
        if len(self.pipeline) >= MAX_REQUESTS_AHEAD:
            self.limits.note_end("requests-ahead")
            self.transport.abort()
            raise ValueError("too many requests ahead of their answers")  # the parser stops
        super().on_headers_complete()
        self._cycles = [cycle for cycle in self._cycles if not cycle.response_complete] + [self.cycle]

    def on_body(self, body: bytes) -> None:
        """Handle a part of the body, of which uvicorn keeps little at a time."""
        self._num_kept_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the last byte of a request."""
        self._is_in_message = False
        self._num_kept_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - a problem document instead
        """Refuse what is no HTTP, or too large, and close."""
        self.limits.note_end("head-too-large" if self._is_too_large else "no-http")
        if self._is_too_large:
            rule = f"must have at most {MAX_HEAD_BYTES:,} bytes"
            self._send_last(
                refusal(HeadTooLarge.of("the head of the request", rule, value=None, remedy="send fewer headers"))
            )
        else:
            self._send_last(MALFORMED.response([Problem("the request", self._rule, "", "check the client")]))

    @property
    def is_waiting(self) -> bool:
        """Whether the connection waits for the client, and no answer is under way."""
        return self._phase() in ("head", "idle")

    def give_way(self) -> None:
        """Close the connection at once, for a client with fewer connections."""
        self.transport.abort()

    def _count(self, num_bytes: int) -> None:
        self._num_head_bytes += num_bytes
        if self._num_head_bytes > MAX_HEAD_BYTES:
            self._is_too_large = True
            raise ValueError("the head is too large")  # the parser stops

    def _require_single_headers(self) -> None:
        """Refuse a request without a Host that names one (RFC 9112, section 3.2), or with two headers of one kind."""
        named = dict(self._single_headers)
        if len(named) < len(self._single_headers):
            self._rule = "must not repeat the headers Host, Authorization, Content-Type and Idempotency-Key"
        elif not _HOST.fullmatch(named.get(b"host", b"" if self.parser.get_http_version() == "1.0" else b"none given")):
            self._rule = "must have a header Host with a name or address"
        else:
            return
        raise ValueError(self._rule)  # the parser stops

    def _send_last(self, response: Response) -> None:
        """Send an answer that no route made, unless one is being sent, and close."""
        if self.cycle is None or self.cycle.response_complete:
            headers = {**SECURITY_HEADERS, **dict(response.headers), "connection": "close"}
            lines = [f"{name}: {value}\r\n".encode("latin-1") for name, value in headers.items()]
            self.transport.write(b"".join([STATUS_LINE[response.status_code], *lines, b"\r\n", bytes(response.body)]))
        self.transport.close()

    def _look(self) -> None:
        """Check whether the connection has been in one phase for too long. A clock for each byte would cost more."""
        phase = self._phase()
        seen = (phase, self._num_messages)
        self._num_looks = self._num_looks + 1 if seen == self._seen else 0
        self._seen = seen
        if self._num_looks * _SECONDS_BETWEEN_LOOKS >= SECONDS_OF.get(phase, float("inf")):
            self.limits.note_end(f"slow-{phase}")
            self.transport.abort()
        else:
            self._look_again = self.loop.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _phase(self) -> _Phase:
        if self.transport.is_closing():
            return "close"
        if self.flow.write_paused:
            return "write"
        if self.cycle is not None and not self.cycle.response_complete:
            return "answer"
        if self._is_in_head:
            return "head"
        return "body" if self._is_in_message else "idle"


def protocol_of(settings: Settings, metrics: Metrics) -> type[BoundedProtocol]:
    """Make the protocol of one server, with limits of its own."""
    return type("Connection", (BoundedProtocol,), {"limits": ConnectionLimits(settings, metrics)})
