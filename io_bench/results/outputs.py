"""Outputs of a run: the result document, a table and charts. All are shown to be writable before the run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
import shlex
import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sizing.errors import InvalidInput
from sizing.spreadsheets import TableWriter
from sizing.storage.measurement import BenchmarkResult, Measurement


class ResultFile:
    """A draft beside the output, which takes the output's place once it is complete."""

    def __init__(self, text: str, *, flag: str = "--output") -> None:
        """Prove that a draft can be made, and leave none yet. Raises InvalidInput where it cannot."""
        self.path = Path(text).resolve()
        self._flag = flag
        self._draft = self.path.parent / f".ckpt-bench-{secrets.token_hex(4)}.part"
        if not text or (self.path.exists() and not self.path.is_file()):
            raise self._unwritable(text, "it is not a regular file")
        try:
            self._draft.touch(exist_ok=False)
            self._draft.unlink()
        except OSError as error:
            raise self._unwritable(text, str(error.strerror)) from error

    def write(self, content: str | bytes) -> None:
        """Fill the draft and put it in the output's place. Raises InvalidInput where that fails."""
        try:
            with self._draft.open("wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
                file.flush()
                os.fsync(file.fileno())
            self._draft.replace(self.path)
        except OSError as error:
            raise self._unwritable(str(self.path), str(error.strerror)) from error

    def discard(self) -> None:
        """Remove the draft, where it is still there."""
        self._draft.unlink(missing_ok=True)

    def _unwritable(self, text: str, reason: str) -> InvalidInput:
        rule = f"must be a file that can be written ({reason})"
        return InvalidInput.of(self._flag, rule, value=text, remedy="choose another path")


@contextmanager
def reserve_result_file(text: str, *, flag: str = "--output") -> Iterator[ResultFile]:
    """Reserve a result file for the time of a run; `flag` asked for it."""
    file = ResultFile(text, flag=flag)
    try:
        yield file
    finally:
        file.discard()


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
    """Write the measurements of a result as CSV, with a header."""
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


_NUMBERS = re.compile(r"\[\n\s*(-?\d[-+\d.,eE\s]*)\]")
"""A list of numbers, one on each line. Text cannot look like it: in a string, JSON writes a line's end as two
characters."""

Renderer = Callable[[BenchmarkResult], str | bytes]
"""Makes the content of a file of a result."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to fill, each with its renderer; the result document comes first."""

    files: tuple[tuple[ResultFile, Renderer], ...]

    @property
    def document(self) -> Path:
        """Path of the result document."""
        return self.files[0][0].path

    @property
    def paths(self) -> tuple[Path, ...]:
        """Paths of all output files."""
        return tuple(file.path for file, _ in self.files)

    def write(self, result: BenchmarkResult) -> None:
        """Fill the files. Raises InvalidInput where one cannot be written."""
        for file, render in self.files:
            file.write(render(result))


@contextmanager
def reserve_outputs(
    document: str, *, csv: str | None, charts: Mapping[str, Renderer] | None = None
) -> Iterator[Outputs]:
    """Reserve the output files for the time of a run; `charts` by the name of their file. Raises InvalidInput."""
    with contextlib.ExitStack() as stack:
        files: list[tuple[ResultFile, Renderer]] = [(stack.enter_context(reserve_result_file(document)), document_text)]
        if csv is not None:
            files.append((stack.enter_context(reserve_result_file(csv, flag="--csv")), csv_text))
        for name, render in (charts or {}).items():
            files.append((stack.enter_context(reserve_result_file(name, flag="--chart")), render))
        yield Outputs(tuple(files))


def document_text(result: BenchmarkResult) -> str:
    """Write the result document. A list of numbers is one line, however many ranks; unmeasured fields are left out."""
    text = result.model_dump_json(indent=2, exclude_none=True)
    return _NUMBERS.sub(lambda numbers: f"[{', '.join(numbers[1].replace(',', ' ').split())}]", text) + "\n"
