"""Traces of requests, of the jobs that they become, and of their chunks: sent by OpenTelemetry where switched on.

FastAPI makes the spans of requests. The server makes all others, of what its processes and Dask's workers say, so that
neither loads or sends anything, and one that is killed takes no span of a chunk with it. No span has a path, a query, a
question or a message: these may hold what only the client may know.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING

from fastapi.telemetry import TelemetryConfig
from opentelemetry.trace import NoOpTracerProvider, Span, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.concurrency import run_in_threadpool

from executors.worker import Computation
from service.settings import Settings
from sizing import __version__
from sizing.questions.chunks import ItemRange

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span as StartedSpan
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.util.types import AnyValue

_PATHS = "/v1/"
"""Probes, pages and static files have others."""
_ADDRESSES = ("url.path", "url.query")
_SECONDS_TO_SEND = 2.0
"""Time for what is left when the service stops: a collector that is away holds nobody up."""


class Tracing:
    """Spans of one server process; none where tracing is off."""

    def __init__(self, settings: Settings) -> None:
        self.is_on = settings.tracing
        self._provider = new_provider() if self.is_on else None
        provider = self._provider or NoOpTracerProvider()
        self._tracer = provider.get_tracer("checkpoint-sizing", __version__)
        self.of_requests: TelemetryConfig = {
            "tracer_provider": provider,
            "tracing": self.is_on,
            "metrics": False,
            "logs": False,  # which have the messages of errors
            "operation_spans": False,
            "auto_configure": False,
            "exclude": lambda scope: not scope["path"].startswith(_PATHS),
        }
        """Settings of FastAPI."""

    @contextmanager
    def span(self, name: str, parent: Context | None = None) -> Iterator[Span]:
        """Begin a span below another one, by default the present one. An error gives it its type, not its message."""
        with self._tracer.start_as_current_span(
            name, parent, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise

    @contextmanager
    def computing(self) -> Iterator[Callable[[ItemRange | None, Computation], None]]:
        """Begin the span of a process that computes, and return who hears what it says of itself, and of each chunk."""
        with self.span("compute") as span:

            def hear(chunk: ItemRange | None, computation: Computation) -> None:
                where: dict[str, AnyValue] = {"host.name": computation.host, "process.pid": computation.pid}
                if chunk is None:
                    span.set_attributes(where)
                    return
                of_items = where | {"ckpt.chunk.start": chunk.start, "ckpt.chunk.stop": chunk.stop}
                below, start_time = set_span_in_context(span), computation.started_ns
                of_chunk = self._tracer.start_span("chunk", below, attributes=of_items, start_time=start_time)
                of_chunk.end(computation.ended_ns)

            yield hear

    async def close(self) -> None:
        """Send the spans that are left, where a collector takes them."""
        if self._provider is not None:
            sending = Thread(target=self._provider.shutdown, daemon=True)
            sending.start()
            await run_in_threadpool(sending.join, _SECONDS_TO_SEND)


def present_traceparent() -> str | None:
    """Return the present span as W3C Trace Context has it; None without one."""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


def context_of(traceparent: str | None) -> Context:
    """Return the context below a span; for None, that of a new trace."""
    return TraceContextTextMapPropagator().extract({"traceparent": traceparent or ""})


def new_provider() -> TracerProvider:
    """Return what makes and sends spans, as the standard OTEL_* variables say."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra

    class Sending(BatchSpanProcessor):
        """Sends spans, those of requests without paths and queries: `http.route` has which it was."""

        def on_start(self, span: StartedSpan, parent_context: Context | None = None) -> None:
            """Replace the path and the query of a span that begins."""
            super().on_start(span, parent_context)
            span.set_attributes({name: "REDACTED" for name in _ADDRESSES if name in (span.attributes or ())})

    own: dict[str, AnyValue] = {
        "service.name": "ckpt-serve",
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
    }
    resource = Resource.create({**own, **OTELResourceDetector().detect().attributes})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(Sending(OTLPSpanExporter()))
    return provider
