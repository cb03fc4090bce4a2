"""Observation of requests: an id, a line in the log, and metrics for each."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.telemetry import REQUEST_ID, Metrics, present_trace_id

_log = logging.getLogger(__name__)

_GIVEN_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_UNLOGGED = ("/healthz", "/readyz", "/metrics")
"""Routes that probes ask every few seconds: logged only where they fail."""


class RequestObservation:
    """Middleware that takes `X-Request-Id` or makes one, sends it back, and notes how the request went."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its response back."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        request_id = Headers(scope=scope).get("x-request-id", "")
        if not _GIVEN_ID.fullmatch(request_id):
            request_id = secrets.token_hex(8)
        REQUEST_ID.set(request_id)
        status, trace_id = 500, None

        async def send_with_id(message: Message) -> None:
            nonlocal status, trace_id
            if message["type"] == "http.response.start":
                status, trace_id = message["status"], present_trace_id()  # its span ends before the line is written
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        self.metrics.requests_in_progress.inc()
        try:
            await self.app(scope, receive, send_with_id)
        finally:
            self.metrics.requests_in_progress.dec()
            self._note(scope, status, time.perf_counter() - start, trace_id)

    def _note(self, scope: Scope, status: int, seconds: float, trace_id: str | None) -> None:
        route = getattr(scope.get("route"), "path", "none")
        self.metrics.request_seconds.labels(scope["method"], route, status).observe(seconds)
        if route in _UNLOGGED and status < 400:
            return
        fields = {
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "seconds": round(seconds, 6),
            "client": (scope.get("client") or ("",))[0],
        }
        if trace_id is not None:
            fields["trace_id"] = trace_id
        _log.info("request", extra={"fields": fields})
