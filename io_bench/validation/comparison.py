"""Run a case and set its files beside the predicted ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.table import Table

from io_bench.errors import RunFailed
from io_bench.validation.cases import Case
from sizing.layout.containers import CONTAINERS, container_bytes
from sizing.report import answer
from sizing.sized import manifest_of
from sizing.units import parse_bytes

TOLERANCE = 0.005
"""Step counters of optimizers and pickled settings, which are not predicted, weigh so much in models as small as
these."""
MAX_SECONDS = 600
"""A tiny model takes seconds; starting DeepSpeed may compile for minutes."""
EMPTY_BYTES: int = container_bytes(CONTAINERS["torch-zip"], num_files=1, num_tensors=0)
"""A file that holds no tensor."""
MAX_BYTES_WITHOUT_TENSORS: int = parse_bytes("64 kB")
"""What a framework puts into a file without tensors: its configuration, names and shapes."""


@dataclass(frozen=True, slots=True)
class FileComparison:
    """One file: bytes predicted, container included, and on disk; None where there is no such file."""

    case: str
    file: str
    predicted_bytes: int | None
    real_bytes: int | None

    @property
    def ratio(self) -> float | None:
        """Predicted over real."""
        if self.predicted_bytes is None or not self.real_bytes:
            return None
        return self.predicted_bytes / self.real_bytes

    @property
    def agrees(self) -> bool:
        """Whether both are there and within the tolerance, or without a tensor."""
        if self.predicted_bytes is not None and self.predicted_bytes <= EMPTY_BYTES:
            return self.real_bytes is not None and self.real_bytes <= MAX_BYTES_WITHOUT_TENSORS
        return self.ratio is not None and abs(self.ratio - 1) <= TOLERANCE


def compared(case: Case) -> list[FileComparison]:
    """The files of a case, trained and saved in a folder of its own that is removed again.

    Raises RunFailed where that does not work.
    """
    predicted = dict(_predicted(case))
    with tempfile.TemporaryDirectory(prefix="ckpt-bench-validate-") as folder:
        files = Path(folder) / "checkpoint"
        files.mkdir()
        _save(case, files)
        real = {
            str(path.relative_to(files)): path.stat().st_size
            for path in files.rglob("*")
            if path.is_file() and path.name != ".metadata"
        }
    names = sorted(predicted.keys() | real.keys())
    return [FileComparison(case.name, name, predicted.get(name), real.get(name)) for name in names]


def comparison_table(files: list[FileComparison]) -> Table:
    """Every file, predicted beside real."""
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


def _predicted(case: Case) -> Iterator[tuple[str, int]]:
    scenario = case.scenario()
    containers = [
        file.container_bytes // file.count
        for rank_class in answer(scenario).layout.rank_classes
        for _ in range(rank_class.num_ranks)
        for file in rank_class.files
        for _ in range(file.count)
    ]
    for row, container in zip(manifest_of(scenario), containers, strict=True):
        yield row.file, row.bytes + container


def _save(case: Case, folder: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(case.num_ranks)]
    with subprocess.Popen(  # noqa: S603  our own module
        [*command, "-m", "io_bench.validation.saving", case.name, str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"},
    ) as launcher:
        try:
            _, said = launcher.communicate(timeout=MAX_SECONDS)
        except subprocess.TimeoutExpired:
            launcher.terminate()  # it ends its ranks
            _, said = launcher.communicate()
            raise RunFailed(f"{case.name} timeout: not saved within {MAX_SECONDS} s: {said[-300:]}") from None
    if launcher.returncode != 0:
        reasons = [line for line in said.splitlines() if "Error" in line]
        raise RunFailed(f"{case.name} could not be saved: {reasons[0] if reasons else said[-300:]}")
