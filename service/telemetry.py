"""Logs of the service, one JSON object per line, and the metrics that Prometheus scrapes.

Several workers count in files of one directory (PROMETHEUS_MULTIPROC_DIR), so that whichever is scraped answers
for all.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opentelemetry.trace import format_trace_id, get_current_span
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from sqlalchemy import Engine, event

from sizing import __version__

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request being answered, also in the threads that help with it."""

_LEVELS = {
    "service": "INFO",  # every request, and what goes wrong
    "uvicorn.error": "WARNING",  # not the life of the server
    "uvicorn.access": "CRITICAL",  # `service.middleware.observation` logs requests
    "alembic": "WARNING",
    "opentelemetry": "WARNING",
}


def present_trace_id() -> str | None:
    """Return the id of the trace that the present span is of; None without one."""
    context = get_current_span().get_span_context()
    return format_trace_id(context.trace_id) if context.is_valid else None


class JsonFormatter(logging.Formatter):
    """A log record as a line of JSON. What a call gives as `extra={"fields": {...}}` becomes fields of it."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line of JSON."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        ids = {"request_id": REQUEST_ID.get(), "trace_id": present_trace_id()}
        line |= {name: value for name, value in ids.items() if value is not None}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonFormatter}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {name: {"handlers": ["stderr"], "level": level, "propagate": False} for name, level in _LEVELS.items()},
}


CONTENT_TYPE = CONTENT_TYPE_LATEST
WORKERS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Bounds of the buckets: an answer takes a millisecond, a heavy question up to 30 s."""


REASONS_TO_END = (
    *("too-many", "head-too-large", "no-http", "requests-ahead"),
    *("slow-head", "slow-body", "slow-write", "slow-close", "slow-idle"),
)
"""Reasons for which the service ends a connection."""


class Metrics:
    """Metrics of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.request_seconds = Histogram(
            "ckpt_http_request_duration_seconds",
            "Time from the first line of the request to the last byte of the answer",
            ["method", "route", "status"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.requests_in_progress = self._gauge("ckpt_http_requests_in_progress", "Requests being answered")
        self.sizings = Counter("ckpt_sizings", "Scenarios answered", registry=self.registry)
        self.runs = Counter(
            "ckpt_ingested_runs", "Benchmark runs received: new, or repeated", ["result"], registry=self.registry
        )
        self.run_bytes = Counter("ckpt_ingested_bytes", "Bytes of new result documents", registry=self.registry)
        self.rate_changes = Counter(
            "ckpt_rate_changes",
            "Rates of published runs that differ from those of earlier like runs: loss, or gain",
            ["system", "change"],
            registry=self.registry,
        )
        build = Gauge(
            "ckpt_build_info",
            "Version that serves; always 1",
            ["version"],
            registry=self.registry,
            multiprocess_mode="max",
        )
        build.labels(__version__).set(1)
        self.client_connections = self._gauge("ckpt_http_connections_open", "Connections of clients")
        self.ended_connections = Counter(
            "ckpt_http_connections_ended",
            "Connections that the service ended for what the client did or left undone",
            ["reason"],
            registry=self.registry,
        )
        for reason in REASONS_TO_END:
            self.ended_connections.labels(reason)  # shown as 0 before the first
        self.connections_in_use = self._gauge("ckpt_database_connections_in_use", "Database connections in use")
        self.compute_running = self._gauge("ckpt_compute_tasks_running", "Heavy questions being computed")
        self.compute_waiting = self._gauge(
            "ckpt_compute_tasks_waiting", "Heavy questions that wait for a process, running ones included"
        )
        self.compute_seconds = Histogram(
            "ckpt_compute_duration_seconds",
            "Time of heavy questions, including waiting",
            ["result"],
            buckets=_SECONDS,
            registry=self.registry,
        )

        self.jobs_active = self._gauge("ckpt_jobs_active", "Jobs that wait or run")
        self.jobs_ended = Counter("ckpt_jobs_ended", "Jobs that ended, by state", ["state"], registry=self.registry)
        for state in ("done", "failed", "cancelled", "interrupted"):
            self.jobs_ended.labels(state)  # a rate is known from the first job on
        self.jobs_taken_over = Counter(
            "ckpt_jobs_taken_over", "Jobs that were taken from another process", registry=self.registry
        )
        self.logins = Counter("ckpt_logins", "Logins of people, by result", ["result"], registry=self.registry)
        for result in ("done", "failed", "unavailable"):
            self.logins.labels(result)  # as above

    def watch(self, engine: Engine) -> None:
        """Count the connections of a database that are in use."""
        event.listen(engine, "checkout", lambda *_: self.connections_in_use.inc())
        event.listen(engine, "checkin", lambda *_: self.connections_in_use.dec())

    def exposition(self) -> bytes:
        """Write all figures of all workers in Prometheus's format."""
        directory = os.environ.get(WORKERS_DIRECTORY)
        if not directory:
            return generate_latest(self.registry) + _measure_memory([os.getpid()])
        workers = _list_living_workers(Path(directory))
        registry = CollectorRegistry()
        MultiProcessCollector(registry, directory)  # type: ignore[no-untyped-call]  # prometheus_client has no type for it
        return generate_latest(registry) + _measure_memory(workers)

    def _gauge(self, name: str, documentation: str) -> Gauge:
        return Gauge(name, documentation, registry=self.registry, multiprocess_mode="livesum")


def _list_living_workers(directory: Path) -> list[int]:
    """List the workers that are counted, and delete the gauges of those that died without a word."""
    living = []
    for file in directory.glob("gauge_livesum_*.db"):
        pid = re.search(r"_(\d+)\.db$", file.name)
        if pid and Path("/proc", pid[1]).exists():
            living.append(int(pid[1]))
        elif pid:
            mark_process_dead(int(pid[1]), str(directory))  # type: ignore[no-untyped-call]  # as above
    return living


def _measure_memory(workers: Sequence[int]) -> bytes:
    """Read the present memory of workers and of the processes beside them, which a busy worker cannot report.

    A process that is gone counts as 0.
    """
    registry = CollectorRegistry()
    resident = Gauge("ckpt_resident_memory_bytes", "Memory in use, by kind of process", ["process"], registry=registry)
    children: list[int] = []
    for worker in workers:
        with contextlib.suppress(OSError):
            for file in Path(f"/proc/{worker}/task").glob("*/children"):
                children += map(int, file.read_text().split())
    for kind, pids in (("worker", workers), ("compute", children)):
        num_pages = 0
        for pid in pids:
            with contextlib.suppress(OSError):
                num_pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        resident.labels(kind).set(num_pages * os.sysconf("SC_PAGE_SIZE"))
    return generate_latest(registry)
