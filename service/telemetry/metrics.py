"""What Prometheus scrapes: requests, sizings, ingests, and what limits them.

Several workers count in files of one directory (PROMETHEUS_MULTIPROC_DIR), so that whichever is scraped answers
for all.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from sqlalchemy import Engine, event

CONTENT_TYPE = CONTENT_TYPE_LATEST
WORKERS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Bounds of the buckets: an answer takes a millisecond, a heavy question up to 30 s."""


class Metrics:
    """The instruments of one application."""

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

    def watch(self, engine: Engine) -> None:
        """Count the connections of a database that are in use."""
        event.listen(engine, "checkout", lambda *_: self.connections_in_use.inc())
        event.listen(engine, "checkin", lambda *_: self.connections_in_use.dec())

    def exposition(self) -> bytes:
        """All of it in Prometheus's format, of all workers together."""
        directory = os.environ.get(WORKERS_DIRECTORY)
        if not directory:
            return generate_latest(self.registry)
        _forget_dead_workers(Path(directory))
        registry = CollectorRegistry()
        MultiProcessCollector(registry, directory)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def _gauge(self, name: str, documentation: str) -> Gauge:
        return Gauge(name, documentation, registry=self.registry, multiprocess_mode="livesum")


def _forget_dead_workers(directory: Path) -> None:
    """Drop the gauges of workers that died without a word: what they had in progress is no more."""
    for file in directory.glob("gauge_livesum_*.db"):
        pid = re.search(r"_(\d+)\.db$", file.name)
        if pid and not Path("/proc", pid[1]).exists():
            mark_process_dead(int(pid[1]), str(directory))  # type: ignore[no-untyped-call]
