"""Where results go: the document, and beside it tables and charts, all proven before the run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from io_bench.result_csv import csv_text
from io_bench.result_file import ResultFile, reserved
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult

Rendered = Callable[[BenchmarkResult], str | bytes]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files to fill, each with what makes its content of a result; the document comes first."""

    files: tuple[tuple[ResultFile, Rendered], ...]

    @property
    def document(self) -> Path:
        """Where the document goes."""
        return self.files[0][0].path

    def write(self, result: BenchmarkResult) -> None:
        """Fill them. Raises InvalidInput where one cannot be written."""
        for file, rendered in self.files:
            file.write(rendered(result))


@contextmanager
def reserved_outputs(
    document: str, *, csv: str | None, charts: tuple[str, ...] = (), renderers: Mapping[str, Rendered] | None = None
) -> Iterator[Outputs]:
    """The output files for the time of a run; `renderers` draw a chart by its file's ending."""
    with contextlib.ExitStack() as held:
        files: list[tuple[ResultFile, Rendered]] = [(held.enter_context(reserved(document)), document_text)]
        if csv is not None:
            files.append((held.enter_context(reserved(csv, flag="--csv")), csv_text))
        for chart in charts:
            renderer = _renderer(chart, renderers or {})
            files.append((held.enter_context(reserved(chart, flag="--chart")), renderer))
        yield Outputs(tuple(files))


def document_text(result: BenchmarkResult) -> str:
    """The result document. What was not measured is left out."""
    return result.model_dump_json(indent=2, exclude_none=True) + "\n"


def _renderer(chart: str, renderers: Mapping[str, Rendered]) -> Rendered:
    ending = Path(chart).suffix
    if ending not in renderers:
        known = " or ".join(renderers)
        raise InvalidInput.of("--chart", f"must end in {known}", value=chart, remedy="give such a name")
    return renderers[ending]
