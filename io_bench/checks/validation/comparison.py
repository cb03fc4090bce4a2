"""Comparison of the files of a case with the predicted ones."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from io_bench import interruption
from io_bench.checks.validation.cases import Case
from io_bench.checks.validation.forked_ranks import ForkedRanks
from io_bench.errors import RunFailed
from sizing.layout.containers import CONTAINERS, container_bytes
from sizing.sized_layout import manifest_of
from sizing.units import parse_bytes

TOLERANCE = 0.005
"""Step counters of optimizers and pickled settings, which are not predicted, weigh so much in models as small as
these."""
MAX_CHARACTERS = 1000
"""Max length of the last words of a rank: a stack of some twenty lines."""
MAX_SECONDS = 600
"""A tiny model takes seconds; starting DeepSpeed may compile for minutes."""
EMPTY_BYTES: int = container_bytes(CONTAINERS["torch-zip"], num_files=1, num_tensors=0)
"""A file that holds no tensor."""
MAX_BYTES_WITHOUT_TENSORS: int = parse_bytes("64 kB")
"""What a framework puts into a file without tensors: its configuration, names and shapes."""


@dataclass(frozen=True, slots=True)
class FileComparison:
    """Bytes of one file as predicted, container included, and on disk; None where there is no such file."""

    case: str
    file: str
    predicted_bytes: int | None
    real_bytes: int | None

    @property
    def ratio(self) -> float | None:
        """Predicted bytes over real ones."""
        if self.predicted_bytes is None or not self.real_bytes:
            return None
        return self.predicted_bytes / self.real_bytes

    @property
    def agrees(self) -> bool:
        """Whether both are there and within the tolerance, or without a tensor."""
        if self.predicted_bytes is not None and self.predicted_bytes <= EMPTY_BYTES:
            return self.real_bytes is not None and self.real_bytes <= MAX_BYTES_WITHOUT_TENSORS
        return self.ratio is not None and abs(self.ratio - 1) <= TOLERANCE


def compare_case(case: Case) -> list[FileComparison]:
    """Train and save a case in a folder of its own, which is removed again, and compare its files.

    Raises RunFailed where that does not work.
    """
    interruption.heed()
    predicted = dict(_predict_file_bytes(case))
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-validate-") as folder:
        files = Path(folder) / "checkpoint"
        files.mkdir()
        _save_case(case, files)
        real = {
            str(path.relative_to(files)): path.stat().st_size
            for path in files.rglob("*")
            if path.is_file() and path.name != ".metadata"
        }
    names = sorted(predicted.keys() | real.keys())
    return [FileComparison(case.name, name, predicted.get(name), real.get(name)) for name in names]


def comparison_table(files: list[FileComparison]) -> Table:
    """Table of all files, predicted bytes beside real ones."""
    table = Table("case", "file", box=box.SIMPLE_HEAD)
    for column in ("predicted bytes", "on disk", "ratio"):
        table.add_column(column, justify="right")
    table.add_column("")
    for file in files:
        sizes = ("-" if size is None else f"{size:,}" for size in (file.predicted_bytes, file.real_bytes))
        ratio = "-" if file.ratio is None else f"{file.ratio:.5f}"
        verdict = "within 0.5 %" if file.agrees else "[red]differs[/red]"
        table.add_row(file.case, file.file, *sizes, ratio, verdict)
    return table


def _predict_file_bytes(case: Case) -> Iterator[tuple[str, int]]:
    """Yield each file of a case with its predicted bytes, container included."""
    for row in manifest_of(case.scenario()):
        yield row.file, row.tensor_bytes + row.container_bytes


def _save_case(case: Case, folder: Path) -> None:
    """Save a case, by ranks that one process for each module forks. It serves all cases, as long as it lives."""
    module = f"{__package__}.{'deepspeed_saving' if case.kind == 'deepspeed' else 'saving'}"
    if module not in _RANKS or not _RANKS[module].is_ready:
        _RANKS[module] = ForkedRanks(module)
    try:
        output = _RANKS[module].run([case.name, str(folder)], num_ranks=case.num_ranks, max_seconds=MAX_SECONDS)
    except TimeoutError:
        raise RunFailed(f"{case.name} timeout: not saved within {MAX_SECONDS} s") from None
    if output is not None:
        raise RunFailed(f"{case.name} could not be saved: {reason_in(output)}")


def end_ranks() -> None:
    """End the processes that fork ranks, and the ranks that still run."""
    while _RANKS:
        _RANKS.popitem()[1].end()


_RANKS: dict[str, ForkedRanks] = {}


def reason_in(output: str) -> str:
    """Find in the output of ranks why one failed: its error, or its last words and the signal that ended it.

    Which rank it was, with its exit code or signal, stands at the end.
    """
    error = re.search(r"^[\w.]+Error\b.*", output, re.MULTILINE)
    if error:
        return error[0]
    last_words = re.search(
        r"^(terminate called|Fatal Python error|free\(\)|malloc|double free|corrupted)", output, re.MULTILINE
    )
    return (output[last_words.start() :][:MAX_CHARACTERS] + "\n" if last_words else "") + output[-300:]
