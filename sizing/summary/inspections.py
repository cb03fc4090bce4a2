"""What an existing checkpoint holds, in words: its tensors, its files, and the flags that size a run like it."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.checkpoint_files.contents import CheckpointContents
from sizing.checkpoint_files.dtypes import NOT_STATED
from sizing.summary.inspected import inspected_flags, inspected_notes
from sizing.summary.rows import Grid, Row, Section, Summary
from sizing.units import bytes_text, decimal_bytes_text, percent_text


def inspection_summary(contents: CheckpointContents, *, name: str) -> Summary:
    """The tables of a checkpoint of some name, notes, and the flags last."""
    return Summary(
        headline=name,
        grids=tuple(tensors_grid(contents) for _ in contents.tensors[:1]),
        remarks=(f"To size a run like it: {flags_text(contents)}",),
        warnings=inspection_notes(contents),
    )


def tensors_grid(contents: CheckpointContents) -> Grid:
    """The tensors by part and dtype."""
    whose = f"{contents.layout}, " if contents.layout else ""
    rows = tuple(
        (
            total.part,
            total.dtype,
            f"{total.num_tensors:,}",
            f"{total.num_parameters:,}",
            "-" if total.dtype == NOT_STATED else bytes_text(total.tensor_bytes),
        )
        for total in contents.tensors
    )
    return Grid(f"Tensors ({whose}{contents.format})", ("part", "dtype", "tensors", "parameters", "bytes"), rows)


def files_section(contents: CheckpointContents) -> Section:
    """The figures of its files."""
    return Section("Checkpoint", tuple(_figure_rows(contents)))


def inspection_notes(contents: CheckpointContents) -> tuple[str, ...]:
    """What could not be read, what the checkpoint lacks, and what its reader has to add."""
    return (*inspected_notes(contents), *_unnamed(contents))


def flags_text(contents: CheckpointContents) -> str:
    """The flags of `ckpt-size` for this checkpoint; the user names a model of unknown parameters."""
    flags = inspected_flags(contents)
    model = [] if "parameters" in flags else ["--model NAME"]
    given = (f"--{name.replace('_', '-')} {value}" for name, value in flags.items())
    return " ".join(("ckpt-size", *model, *given))


def _figure_rows(contents: CheckpointContents) -> Iterator[Row]:
    parameters, disk_bytes, largest = contents.num_parameters, contents.disk_bytes, contents.largest_file
    tied = f"{contents.num_aliases:,} more names share the same data" if contents.num_aliases else ""
    yield Row("parameters", "unknown" if parameters is None else f"{parameters:,}", tied)
    if contents.overhead_bytes is not None or contents.absent_files:
        yield Row("tensors", bytes_text(contents.tensor_bytes), _per_parameter(contents.tensor_bytes, parameters))
    if contents.absent_files:
        yield Row("files", f"{len(contents.absent_files):,} absent", contents.absent_files[0])
        return
    yield Row("on disk", bytes_text(disk_bytes), _per_parameter(disk_bytes, parameters))
    if contents.overhead_bytes is not None:
        share = f"{percent_text(contents.overhead_bytes / disk_bytes)} of the files" if disk_bytes else ""
        yield Row("overhead", _signed_bytes_text(contents.overhead_bytes), share)
    for kind, num_bytes in contents.small_state_bytes.items():
        yield Row(kind, bytes_text(num_bytes), "")
    yield Row("files", f"{len(contents.files):,}", f"largest {largest.name}, {bytes_text(largest.num_bytes)}")


def _per_parameter(size: int, parameters: int | None) -> str:
    return f"{size / parameters:.3f} B per parameter" if parameters else ""


def _signed_bytes_text(size: int) -> str:
    return bytes_text(size) if size >= 0 else f"-{decimal_bytes_text(-size)}"


def _unnamed(contents: CheckpointContents) -> Iterator[str]:
    if contents.num_parameters is None:
        yield "The number of parameters is unknown. Replace NAME by the model's name in `ckpt-size models`"
