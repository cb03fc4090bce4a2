"""Tensors of a torch DCP checkpoint: a folder of `.distcp` files with a `.metadata` file."""

from __future__ import annotations

import re
from pathlib import Path

from sizing.checkpoint_files.container import Container
from sizing.checkpoint_files.dcp_metadata import DcpMetadata, dcp_metadata
from sizing.checkpoint_files.pickle_values import MAX_PICKLE_BYTES, RefusedPickle
from sizing.checkpoint_files.refusals import (
    DAMAGED_REMEDY,
    bounded_content,
    refusal,
    regular_file_bytes,
)

METADATA_NAME = ".metadata"
DATA_SUFFIX = ".distcp"


def dcp_container(path: Path) -> Container:
    """The tensors that a `.metadata` file describes, and the data files beside it.

    Raises UnreadableFile where the file is refused, or where the data files are cut short or partly missing.
    """
    metadata = read_dcp_metadata(path)
    present, absent = _data_files(path, metadata)
    return Container(
        format="torch-dcp",
        paths=(path, *present),
        tensors=metadata.tensors,
        is_state_dict=not metadata.num_blobs,
        absent_files=absent,
        keys=frozenset(
            re.split(r"[./]", name)[0] for name in (*(tensor.name for tensor in metadata.tensors), *metadata.item_bytes)
        ),
        value_bytes=metadata.value_bytes,
        notes=tuple(_notes(metadata, absent)),
    )


def read_dcp_metadata(path: Path) -> DcpMetadata:
    """What a `.metadata` file describes. Raises UnreadableFile where it is refused."""
    content = bounded_content(path, max_bytes=MAX_PICKLE_BYTES, what="metadata")
    try:
        return dcp_metadata(content)
    except RefusedPickle as error:
        raise refusal(path, f"is refused as DCP metadata ({error})", DAMAGED_REMEDY) from None


def _data_files(path: Path, metadata: DcpMetadata) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The data files that the metadata names: those that are there, and those that are not."""
    ends = metadata.file_ends
    names = sorted(ends)
    present = tuple(path.parent / name for name in names if (path.parent / name).exists())
    if present and len(present) < len(names):
        wrong = f"names {len(names)} data files of which {len(names) - len(present)} are missing"
        raise refusal(path, wrong, "copy the missing files, or give the .metadata file without any")
    for file in present:
        size, end = regular_file_bytes(file), ends[file.name]
        if size < end:
            wrong = f"is cut short: it has {size} bytes, and .metadata places data up to byte {end}"
            raise refusal(file, wrong, DAMAGED_REMEDY)
    return present, () if present else tuple(names)


def _notes(metadata: DcpMetadata, absent: tuple[str, ...]) -> list[str]:
    notes = []
    if absent:
        notes.append("No data file is in the folder of .metadata: the sizes are those that .metadata states")
    if metadata.is_transformed:
        notes.append("The data files are compressed or encrypted: tensor bytes are those in memory")
    return notes
