"""The files of a checkpoint in words: who writes what, and the files one by one."""

from __future__ import annotations

from sizing.explore.manifests.manifest_report import ManifestReport
from sizing.report import SizingReport
from sizing.summary.grids import rank_classes
from sizing.summary.headline import headline
from sizing.summary.rows import Grid, Summary
from sizing.units import bytes_text


def manifest_summary(report: SizingReport, listed: ManifestReport) -> Summary:
    """Classes of ranks, then the files that were asked for."""
    files = [files_grid(listed)] if listed.files else []
    return Summary(headline=headline(report), grids=(rank_classes(report), *files), remarks=(_extent(listed),))


def files_grid(listed: ManifestReport) -> Grid:
    """A row for each file."""
    rows = tuple(
        (file.file, bytes_text(file.tensor_bytes), f"{file.rank:,}", f"{file.node:,}", f"{file.stage:,}")
        for file in listed.files or []
    )
    return Grid("Files", ("file", "tensors", "rank", "node", "stage"), rows)


def _extent(listed: ManifestReport) -> str:
    """Which of the files are listed."""
    num_files = listed.checkpoint.num_files
    if listed.files is None:
        return f"{num_files:,} files are too many to name each: the classes of ranks tell all of them."
    if not listed.files:
        return f"The checkpoint has {num_files:,} files: none follows."
    last = listed.first + len(listed.files)
    whole = " As CSV there are all of them." if listed.next else ""
    return f"Files {listed.first + 1:,} to {last:,} of {num_files:,}.{whole}"
