"""Files of a checkpoint, in words: who writes what, and the files one by one."""

from __future__ import annotations

from sizing.present.grids import rank_classes_grid
from sizing.present.rows import Grid, Summary
from sizing.present.size import headline
from sizing.questions.manifest.report import ManifestReport
from sizing.report import SizingReport
from sizing.units import bytes_text


def manifest_summary(report: SizingReport, manifest: ManifestReport) -> Summary:
    """Put the classes of ranks into a table, and below it the files that the request wants."""
    grids, num_files = [rank_classes_grid(report)], manifest.checkpoint.num_files
    if manifest.files:
        last = manifest.first + len(manifest.files)
        all_as_csv = " As CSV there are all of them." if manifest.next else ""
        extent = f"Files {manifest.first + 1:,} to {last:,} of {num_files:,}.{all_as_csv}"
        rows = tuple(
            (
                file.file,
                bytes_text(file.tensor_bytes),
                bytes_text(file.container_bytes),
                *(f"{number:,}" for number in (file.rank, file.node, file.stage)),
            )
            for file in manifest.files
        )
        grids.append(Grid("Files", ("file", "tensors", "other bytes", "rank", "node", "stage"), rows))
    elif manifest.files is None:
        extent = f"{num_files:,} files are too many to name each: the classes of ranks tell all of them."
    else:
        extent = f"The checkpoint has {num_files:,} files: none follows."
    return Summary(headline=headline(report), grids=tuple(grids), remarks=(extent,))
