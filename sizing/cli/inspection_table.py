"""What `ckpt-size inspect` prints of a checkpoint: its tensors, its files, and the flags that use them."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.checkpoint_files import CheckpointContents
from sizing.checkpoint_files.dtypes import NOT_STATED
from sizing.cli.inspected import inspected_flags, inspected_notes
from sizing.units import bytes_text, decimal_bytes_text, percent_text


def inspection_table(contents: CheckpointContents) -> RenderableType:
    """Tensors by part and dtype, the files' figures, notes, and last the flags for `ckpt-size`."""
    return Group(
        *([_tensors(contents)] if contents.tensors else []),
        _figures(contents),
        *(Text(f"note: {note}") for note in (*inspected_notes(contents), *_unnamed(contents))),
        Text(),
        Text(flags_text(contents)),
    )


def flags_text(contents: CheckpointContents) -> str:
    """The flags of `ckpt-size` for this checkpoint; the user names a model of unknown parameters."""
    flags = inspected_flags(contents)
    model = [] if "parameters" in flags else ["--model NAME"]
    given = (f"--{name.replace('_', '-')} {value}" for name, value in flags.items())
    return " ".join(("ckpt-size", *model, *given))


def _tensors(contents: CheckpointContents) -> Table:
    whose = f"{contents.layout}, " if contents.layout else ""
    table = Table(title=f"Tensors ({whose}{contents.format})", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("part", "dtype"):
        table.add_column(column)
    for column in ("tensors", "parameters", "bytes"):
        table.add_column(column, justify="right")
    for total in contents.tensors:
        table.add_row(
            total.part,
            total.dtype,
            f"{total.num_tensors:,}",
            f"{total.num_parameters:,}",
            "-" if total.dtype == NOT_STATED else bytes_text(total.tensor_bytes),
        )
    return table


def _figures(contents: CheckpointContents) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    for justify in ("left", "right", "left"):
        table.add_column(justify=justify)
    for name, value, remark in _figure_rows(contents):
        table.add_row(name, value, Text(remark))
    return table


def _figure_rows(contents: CheckpointContents) -> Iterator[tuple[str, str, str]]:
    parameters, disk_bytes, largest = contents.num_parameters, contents.disk_bytes, contents.largest_file
    tied = f"{contents.num_aliases:,} more names share the same data" if contents.num_aliases else ""
    yield "parameters", "unknown" if parameters is None else f"{parameters:,}", tied
    if contents.overhead_bytes is not None or contents.absent_files:
        yield "tensors", bytes_text(contents.tensor_bytes), _per_parameter(contents.tensor_bytes, parameters)
    if contents.absent_files:
        yield "files", f"{len(contents.absent_files):,} absent", contents.absent_files[0]
        return
    yield "on disk", bytes_text(disk_bytes), _per_parameter(disk_bytes, parameters)
    if contents.overhead_bytes is not None:
        share = f"{percent_text(contents.overhead_bytes / disk_bytes)} of the files" if disk_bytes else ""
        yield "overhead", _signed_bytes_text(contents.overhead_bytes), share
    for kind, num_bytes in contents.small_state_bytes.items():
        yield kind, bytes_text(num_bytes), ""
    yield "files", f"{len(contents.files):,}", f"largest {largest.name}, {bytes_text(largest.num_bytes)}"


def _per_parameter(size: int, parameters: int | None) -> str:
    return f"{size / parameters:.3f} B per parameter" if parameters else ""


def _signed_bytes_text(size: int) -> str:
    return bytes_text(size) if size >= 0 else f"-{decimal_bytes_text(-size)}"


def _unnamed(contents: CheckpointContents) -> Iterator[str]:
    if contents.num_parameters is None:
        yield "The number of parameters is unknown. Replace NAME by the model's name in `ckpt-size models`"
