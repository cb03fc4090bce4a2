"""A result as CSV: one row per measurement, units in the names of the columns, and in each row where it is from."""

from __future__ import annotations

import csv
import io
import json
import shlex
import statistics
from collections.abc import Mapping

from sizing.storage.measurement import BenchmarkResult, Measurement

_LEFT_OUT = {"seconds", "first_done_seconds", "rank_seconds", "rank_bytes", "start_spread_seconds"}
"""Samples of every rank: the document has them."""


def csv_text(result: BenchmarkResult) -> str:
    """The table of a result, with a header."""
    rows = [_row(result, measurement) for measurement in result.measurements]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _row(result: BenchmarkResult, measurement: Measurement) -> dict[str, object]:
    seconds = measurement.seconds
    fields = measurement.model_dump(mode="json", exclude=_LEFT_OUT)
    low, high = fields.pop("rate_interval_bytes_per_second") or (None, None)
    versions = result.environment.get("versions")
    return {
        "run_id": result.run_id,
        "started_at": result.started_at.isoformat() if result.started_at else None,
        "version": versions.get("checkpoint-sizing") if isinstance(versions, Mapping) else None,
        **{name: _cell(value) for name, value in fields.items()},
        "num_repetitions": len(seconds),
        "median_seconds": statistics.median(seconds),
        "min_seconds": min(seconds),
        "max_seconds": max(seconds),
        "median_first_done_seconds": statistics.median(measurement.first_done_seconds),
        "low_bytes_per_second": low,
        "high_bytes_per_second": high,
        "command": shlex.join(result.command),
    }


def _cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, (list, dict)) else value
