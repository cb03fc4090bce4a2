"""The `checkpoint` block of the report: the bytes of one checkpoint."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout.containers import (
    GENERATOR_STATE_BYTES,
    SCHEDULER_AND_DATA_BYTES,
    Container,
    container_bytes,
    metadata_bytes,
)
from sizing.layout.file_settings import CheckpointFiles
from sizing.layout.files import File, WriterClass
from sizing.layout.formats import CheckpointFormat, FormatName
from sizing.layout.parallelism import Parallelism
from sizing.model import TensorGroup
from sizing.model.inventory import Inventory
from sizing.state import StatePart
from sizing.state.saved_state import PartName

METADATA = ".metadata"
"""The file of a distributed checkpoint that says where each shard is."""


class PartSize(BaseModel):
    """One part of the saved state, over the whole checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: str
    bytes_per_parameter: float
    logical_bytes: int
    replicated_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of the part in the files."""
        return self.logical_bytes + self.replicated_bytes


class ReplicatedTensors(BaseModel):
    """Tensors that stand in the files more than once: `copies` times (of the weights) instead of once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tensors: str
    copies: int
    replicated_bytes: int = Field(description="beyond the first copy")


class CheckpointSize(BaseModel):
    """The `checkpoint` block of the report: the bytes of one checkpoint.

    `logical_bytes` holds every parameter once, `replicated_bytes` what the files repeat; their sum is
    `total_bytes`. `written_bytes` is what times and rates are computed from: `observed_bytes` where it is
    given, else `total_bytes`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: FormatName
    logical_bytes: int
    replicated_bytes: int
    total_bytes: int
    observed_bytes: int | None
    observed_over_logical: float | None
    written_bytes: int
    bytes_per_parameter: float = Field(description="of logical_bytes")
    num_files: int
    container_bytes: int = Field(description="headers and pickles of the files, beyond total_bytes")
    small_state_bytes: dict[str, int] = Field(description="counted apart, beyond total_bytes")
    parts: dict[PartName, PartSize]
    replicated: list[ReplicatedTensors]


def size_of(
    inventory: Inventory,
    parts: tuple[StatePart, ...],
    parallelism: Parallelism,
    *,
    saved_as: CheckpointFormat,
    checkpoint: CheckpointFiles,
    writers: tuple[WriterClass, ...],
) -> CheckpointSize:
    """The block of an inventory and those who write it."""
    logical = {part.name: sum(group_bytes(g, part) for g in inventory) for part in parts}
    num_parameters = sum(group.num_parameters for group in inventory)
    written = {part.name: _part_bytes(writers, part.name) for part in parts}
    total, logical_total = sum(written.values()), sum(logical.values())
    observed = checkpoint.observed_bytes
    return CheckpointSize(
        format=saved_as.name,
        logical_bytes=logical_total,
        replicated_bytes=total - logical_total,
        total_bytes=total,
        observed_bytes=observed,
        observed_over_logical=observed / logical_total if observed else None,
        written_bytes=observed or total,
        bytes_per_parameter=logical_total / num_parameters,
        num_files=sum(writer.num_ranks * file.count for writer in writers for file in writer.files),
        container_bytes=sum(
            writer.num_ranks * _container_bytes(saved_as.container, file) for writer in writers for file in writer.files
        ),
        small_state_bytes=_small_state(inventory, parts, has_metadata=saved_as.has_metadata, writers=writers),
        parts={
            part.name: PartSize(
                dtype=part.dtype,
                bytes_per_parameter=logical[part.name] / num_parameters,
                logical_bytes=logical[part.name],
                replicated_bytes=written[part.name] - logical[part.name],
            )
            for part in parts
        },
        replicated=_replicated(inventory, parts, parallelism, saved_as),
    )


def group_bytes(group: TensorGroup, part: StatePart) -> int:
    """Bytes that a part keeps of a group, each logical tensor once.

    Tensors x bytes of one tensor; 0 of frozen tensors where the part keeps none of them.
    Source: definition.

    >>> group_bytes(TensorGroup("norm", (64,), 1, layers=range(3)), StatePart("weights", "bf16"))
    384
    """
    if not group.is_trained and not part.is_kept_of_frozen:
        return 0
    per_parameter = part.bytes_per_parameter
    if per_parameter is not None:
        return group.num_parameters * per_parameter
    return group.num_tensors * part.tensor_bytes(group.shape, is_hidden_matrix=group.is_hidden_matrix)


def _small_state(
    inventory: Inventory, parts: tuple[StatePart, ...], *, has_metadata: bool, writers: tuple[WriterClass, ...]
) -> dict[str, int]:
    """What stands in the files beside the tensors of the model and its optimizer."""
    num_writers = sum(writer.num_ranks for writer in writers)
    small = {
        "random-number generators": num_writers * GENERATOR_STATE_BYTES,
        "scheduler and data position": num_writers * SCHEDULER_AND_DATA_BYTES,
    }
    if has_metadata:
        num_shards = sum(writer.num_ranks * file.num_tensors for writer in writers for file in writer.files)
        num_tensors = sum(g.num_tensors * part.num_statistics for g in inventory for part in parts)
        small[METADATA] = metadata_bytes(num_tensors=num_tensors, num_shards=num_shards)
    return small


def _container_bytes(container: Container, file: File) -> int:
    return container_bytes(container, num_files=file.count, num_tensors=file.num_tensors)


def _replicated(
    inventory: Inventory, parts: tuple[StatePart, ...], parallelism: Parallelism, saved_as: CheckpointFormat
) -> list[ReplicatedTensors]:
    rows = []
    for group in inventory:
        copies = [saved_as.num_copies(group, part.name, parallelism) for part in parts]
        extra = sum((n - 1) * group_bytes(group, part) for n, part in zip(copies, parts, strict=True) if n > 1)
        if extra:
            rows.append(ReplicatedTensors(tensors=group.name, copies=copies[0], replicated_bytes=extra))
    return sorted(rows, key=lambda row: -row.replicated_bytes)


def _part_bytes(writers: tuple[WriterClass, ...], name: PartName) -> int:
    return sum(writer.num_ranks * file.bytes_of((name,)) for writer in writers for file in writer.files)
