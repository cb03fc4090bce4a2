"""What Prometheus scrapes: requests, sizings, ingests, and what limits them.

Several workers count in files of one directory (PROMETHEUS_MULTIPROC_DIR), so that whichever is scraped answers
for all.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from sqlalchemy import Engine, event

from sizing import __version__

CONTENT_TYPE = CONTENT_TYPE_LATEST
WORKERS_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Bounds of the buckets: an answer takes a millisecond, a heavy question up to 30 s."""


REASONS_TO_END = (
    *("too-many", "head-too-large", "no-http", "requests-ahead"),
    *("slow-head", "slow-body", "slow-write", "slow-close", "slow-idle"),
)
"""For which the service ends a connection."""


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
        self.logins = Counter("ckpt_logins", "Logins of people, by result", ["result"], registry=self.registry)
        for result in ("done", "failed", "unavailable"):
            self.logins.labels(result)  # as above

    def watch(self, engine: Engine) -> None:
        """Count the connections of a database that are in use."""
        event.listen(engine, "checkout", lambda *_: self.connections_in_use.inc())
        event.listen(engine, "checkin", lambda *_: self.connections_in_use.dec())

    def exposition(self) -> bytes:
        """All of it in Prometheus's format, of all workers together."""
        directory = os.environ.get(WORKERS_DIRECTORY)
        if not directory:
            return generate_latest(self.registry) + _memory([os.getpid()])
        workers = _living_workers(Path(directory))
        registry = CollectorRegistry()
        MultiProcessCollector(registry, directory)  # type: ignore[no-untyped-call]  # prometheus_client has no type for it
        return generate_latest(registry) + _memory(workers)

    def _gauge(self, name: str, documentation: str) -> Gauge:
        return Gauge(name, documentation, registry=self.registry, multiprocess_mode="livesum")


def _living_workers(directory: Path) -> list[int]:
    """The workers that count there, without the gauges of those that died without a word."""
    living = []
    for file in directory.glob("gauge_livesum_*.db"):
        pid = re.search(r"_(\d+)\.db$", file.name)
        if pid and Path("/proc", pid[1]).exists():
            living.append(int(pid[1]))
        elif pid:
            mark_process_dead(int(pid[1]), str(directory))  # type: ignore[no-untyped-call]  # as above
    return living


def _memory(workers: Sequence[int]) -> bytes:
    """Memory of workers, and of the processes beside them, as it is now: nobody else can say it of a busy one."""
    registry = CollectorRegistry()
    resident = Gauge("ckpt_resident_memory_bytes", "Memory in use, by kind of process", ["process"], registry=registry)
    beside = [child for worker in workers for child in _children(worker)]
    for kind, pids in (("worker", workers), ("compute", beside)):
        resident.labels(kind).set(sum(map(_resident_bytes, pids)))
    return generate_latest(registry)


def _resident_bytes(pid: int) -> int:
    """Of a process; 0 where it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        lists = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(child) for children in lists for child in children.read_text().split()]
    return []
