"""Where results go: the document, and beside it tables and charts, all proven before the run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from io_bench.results.result_csv import csv_text
from io_bench.results.result_file import ResultFile, reserved
from sizing.storage.measurement import BenchmarkResult

_NUMBERS = re.compile(r"\[\n\s*(-?\d[-+\d.,eE\s]*)\]")
"""A list of numbers on lines of their own: in a text, JSON writes a line's end as two characters."""

Rendered = Callable[[BenchmarkResult], str | bytes]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to fill, each with what makes its content of a result; the document comes first."""

    files: tuple[tuple[ResultFile, Rendered], ...]

    @property
    def document(self) -> Path:
        """Where the document goes."""
        return self.files[0][0].path

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them."""
        return tuple(file.path for file, _ in self.files)

    def write(self, result: BenchmarkResult) -> None:
        """Fill them. Raises InvalidInput where one cannot be written."""
        for file, rendered in self.files:
            file.write(rendered(result))


@contextmanager
def reserved_outputs(
    document: str, *, csv: str | None, charts: Mapping[str, Rendered] | None = None
) -> Iterator[Outputs]:
    """The output files for the time of a run; `charts` by the name of their file. Raises InvalidInput."""
    with contextlib.ExitStack() as held:
        files: list[tuple[ResultFile, Rendered]] = [(held.enter_context(reserved(document)), document_text)]
        if csv is not None:
            files.append((held.enter_context(reserved(csv, flag="--csv")), csv_text))
        for name, rendered in (charts or {}).items():
            files.append((held.enter_context(reserved(name, flag="--chart")), rendered))
        yield Outputs(tuple(files))


def document_text(result: BenchmarkResult) -> str:
    """The result document. What was not measured is left out; a list of numbers is one line, however many ranks."""
    return _NUMBERS.sub(_in_one_line, result.model_dump_json(indent=2, exclude_none=True)) + "\n"


def _in_one_line(numbers: re.Match[str]) -> str:
    return f"[{', '.join(numbers[1].replace(',', ' ').split())}]"
