"""The headline of a report, and the size of a checkpoint and its writers in rows."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.present.guesses import marked
from sizing.present.rows import Row, Section
from sizing.provenance import CHOSEN, LAYOUT
from sizing.report import SizingReport
from sizing.units import bytes_text, counted_text, decimal_bytes_text, percent_text


def checkpoint_section(report: SizingReport) -> Section:
    """Show how large a checkpoint is, and who writes it."""
    return Section("Checkpoint", tuple(_list_rows(report)))


def _list_rows(report: SizingReport) -> Iterator[Row]:
    size, layout = report.checkpoint, report.layout
    parts = ", ".join(f"{name} {part.dtype}" for name, part in size.parts.items())
    yield Row("logical", bytes_text(size.logical_bytes), f"{size.bytes_per_parameter:g} B per parameter: {parts}")
    if size.replicated_bytes:
        copied = ", ".join(f"{r.tensors} x{r.copies}" for r in size.replicated[:3])
        more = len(size.replicated) - 3
        tail = f" and {more} more" if more > 0 else ""
        yield Row("replicated", bytes_text(size.replicated_bytes), copied + tail)
    files, written = f"{counted_text(size.num_files, 'file')}, {size.format}", "checkpoint.written_bytes"
    if size.stored_fraction < 1 and size.observed_bytes is None:
        meaning = f"{percent_text(size.stored_fraction)} of the total, as {size.format} compresses; for times and rates"
        yield Row("total", bytes_text(size.total_bytes), files)
        yield Row("stored", bytes_text(size.written_bytes), marked(report, written, meaning))
    else:
        yield Row("total", bytes_text(size.total_bytes), marked(report, written, files))
    others = {"container headers": size.container_bytes} | size.small_state_bytes
    yield Row(
        "non-tensor data",
        bytes_text(sum(others.values())),
        f"{percent_text(sum(others.values()) / size.total_bytes)} of the total: {', '.join(others)}",
    )
    if num_small := size.num_files - size.num_rank_files:
        who = {"by rank 0": size.small_files, "by each rank": size.small_files_of_ranks}
        what = "; ".join(f"{writer}: {', '.join(names)}" for writer, names in who.items() if names)
        yield Row("small files", f"{num_small:,}", f"of the files, {what}")
    if size.observed_bytes is not None:
        yield Row(
            "observed",
            bytes_text(size.observed_bytes),
            f"{size.observed_over_logical:.3f} x logical; used for all times and rates",
        )
    yield Row(
        "writers",
        f"{layout.num_writers:,} of {layout.num_gpus:,} GPUs",
        f"on {layout.num_writing_nodes:,} of {layout.num_nodes:,} nodes; largest rank "
        f"{decimal_bytes_text(layout.max_rank_bytes)}, mean {decimal_bytes_text(layout.mean_rank_bytes)}",
    )


def headline(report: SizingReport) -> str:
    """Write in a line which model is trained, on how many GPUs, and the layout where it was chosen."""
    layout, size = report.layout, f"{report.model.num_parameters:,} parameters"
    degrees = "".join(f"; {row.value_text}, {CHOSEN}" for row in report.assumptions if row.field == LAYOUT)
    name = report.model.name
    model = name if name.startswith(size) else f"{name}: {size}"
    return f"{model} on {counted_text(layout.num_gpus, 'GPU')} ({layout.num_nodes:,} x {layout.node}{degrees})"
