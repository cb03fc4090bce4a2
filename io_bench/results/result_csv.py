"""A result as CSV: one row per measurement, units in the names of the columns, and in each row where it is from."""

from __future__ import annotations

import io
import json
import shlex
import statistics
from collections.abc import Mapping

from sizing.spreadsheets import TableWriter
from sizing.storage.measurement import BenchmarkResult, Measurement

_LEFT_OUT = {
    "seconds",
    "first_done_seconds",
    "rank_seconds",
    "rank_bytes",
    "rank_cpu_seconds",
    "start_spread_seconds",
    "rates_over_time",
}
"""Samples of every rank: the document has them."""
_LATENCIES = {
    "num_requests": "num_requests",
    "p50_seconds": "p50_request_seconds",
    "p99_seconds": "p99_request_seconds",
    "p999_seconds": "p999_request_seconds",
    "max_seconds": "max_request_seconds",
    "slowest": "slowest_request",
}
"""Columns of the tail, by field; the document has the histogram."""


def csv_text(result: BenchmarkResult) -> str:
    """The table of a result, with a header."""
    rows = [_row(result, measurement) for measurement in result.measurements]
    text = io.StringIO()
    writer = TableWriter(text)
    writer.row(rows[0])
    writer.rows(row.values() for row in rows)
    return text.getvalue()


def _row(result: BenchmarkResult, measurement: Measurement) -> dict[str, object]:
    seconds = measurement.seconds
    fields = measurement.model_dump(mode="json", exclude=_LEFT_OUT)
    low, high = fields.pop("rate_interval_bytes_per_second") or (None, None)
    latency = fields.pop("request_latency") or {}
    versions = result.environment.get("versions")
    return {
        "run_id": result.run_id,
        "started_at": result.started_at.isoformat() if result.started_at else None,
        "version": versions.get("checkpoint-sizing") if isinstance(versions, Mapping) else None,
        **{name: _cell(value) for name, value in fields.items()},
        **{column: _cell(latency.get(name)) for name, column in _LATENCIES.items()},
        "num_repetitions": len(seconds),
        "median_seconds": statistics.median(seconds),
        "min_seconds": min(seconds),
        "max_seconds": max(seconds),
        "median_first_done_seconds": statistics.median(measurement.first_done_seconds),
        "headline_bytes_per_second": measurement.headline_bytes_per_second,
        "low_bytes_per_second": low,
        "high_bytes_per_second": high,
        "command": shlex.join(result.command),
    }


def _cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, (list, dict)) else value
