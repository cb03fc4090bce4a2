"""A run of a workload of MLPerf Storage for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.table import Table

from io_bench.mlperf.figures import MlperfFigures
from sizing.units import BYTES_PER_GIBIBYTE, bytes_text, rate_text, seconds_text


def mlperf_table(found: MlperfFigures) -> Table:
    """Times and rates of saves and restores."""
    count = len(found.write.seconds)
    title = f"MLPerf Storage, {found.model}: {count} saves, then {count} restores, {found.num_processes} processes"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("operation")
    for column in ("min", "mean", "max", "by slowest process", "by process 0, as in the benchmark"):
        table.add_column(column, justify="right")
    for name, operation in (("write", found.write), ("read", found.read)):
        theirs = operation.process_0_mean_bytes_per_second
        table.add_row(
            name,
            *map(seconds_text, (operation.min_seconds, operation.mean_seconds, operation.max_seconds)),
            rate_text(operation.mean_bytes_per_second),
            f"{rate_text(theirs)} ({theirs / BYTES_PER_GIBIBYTE:.4g} GiB/s)",
        )
    return table


def mlperf_sentences(found: MlperfFigures) -> Iterator[str]:
    """What the run is worth beside the benchmark."""
    size = bytes_text(found.checkpoint_bytes)
    yield f"One checkpoint has {size} of tensors, in files of {bytes_text(found.disk_bytes)}."
    if found.is_comparable:
        yield "Comparable with the benchmark's own figures. No result is valid that the benchmark itself did not make."
    else:
        yield f"Not comparable with the benchmark's own figures: {'; '.join(found.differences)}."
