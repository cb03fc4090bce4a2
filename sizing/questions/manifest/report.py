"""Report on the files of a checkpoint, as a document: by class of ranks, and one by one as far as that can be read."""

from __future__ import annotations

from pydantic import Field

from sizing.layout.files import MAX_RANKS
from sizing.layout.ranks import RankClass
from sizing.layout.size import CheckpointSize
from sizing.strict_model import StrictModel

MAX_FILES = 500_000
"""Max files that are named one by one: 30 MB of CSV. A choice; experts of DeepSpeed make more than one file a rank."""


class ManifestFile(StrictModel):
    """One file of a checkpoint, and who writes it."""

    file: str = Field(description="Path in the checkpoint's folder.")
    tensor_bytes: int = Field(
        description="Bytes of its tensors. Those of all files add up to checkpoint.written_bytes; 0 of a small file."
    )
    container_bytes: int = Field(
        description="Bytes of headers and pickles in it, or all of a small file. Those of files with tensors add up to "
        "checkpoint.container_bytes; the generators, scheduler and data position of ranks come on top."
    )
    rank: int = Field(description="Global rank that writes it, counted from 0.")
    node: int = Field(description="Node of that rank, counted from 0.")
    stage: int = Field(description="Pipeline stage of that rank, counted from 0.")


class ManifestReport(StrictModel):
    """The files of a checkpoint."""

    checkpoint: CheckpointSize = Field(description="Bytes and files of one checkpoint in total.")
    rank_classes: list[RankClass] = Field(description="Who writes what: one entry for all ranks that write the same.")
    first: int = Field(description="Files that were passed over.")
    files: list[ManifestFile] | None = Field(
        description=f"The files that follow, class by class. Null for more than {MAX_RANKS:,} ranks or {MAX_FILES:,} "
        "files, of which the classes tell all."
    )
    next: int | None = Field(description="What to pass over for the files that follow. Null when none does.")
