"""The `checkpoint` block of the report: the bytes of one checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout.containers import (
    GENERATOR_STATE_BYTES,
    SCHEDULER_AND_DATA_BYTES,
    Container,
    container_bytes,
    metadata_bytes,
)
from sizing.layout.file_settings import CheckpointFiles
from sizing.layout.files import File, WriterClass, written_files
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

    dtype: str = Field(description="Dtype of the saved values.")
    bytes_per_parameter: float = Field(
        description="Mean bytes of this part per parameter of the model, each counted once."
    )
    logical_bytes: int = Field(description="Bytes of this part with every parameter counted once.")
    replicated_bytes: int = Field(description="Bytes that the files repeat of this part.")

    @property
    def total_bytes(self) -> int:
        """Bytes of the part in the files."""
        return self.logical_bytes + self.replicated_bytes


class ReplicatedTensors(BaseModel):
    """Tensors that stand in the files more than once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tensors: str = Field(description="Name of the group of tensors that the files repeat.")
    copies: int = Field(description="How many times the files hold each of these weights.")
    replicated_bytes: int = Field(description="Bytes beyond the first copy, over all saved parts.")


class CheckpointSize(BaseModel):
    """The `checkpoint` block of the report: the bytes of one checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: FormatName = Field(description="Layout of the files, as given or as the framework writes.")
    logical_bytes: int = Field(description="Bytes of saved state with every parameter counted once.")
    replicated_bytes: int = Field(description="Bytes that the files hold beyond the first copy of each tensor.")
    total_bytes: int = Field(description="Bytes of tensors in all files: logical_bytes + replicated_bytes.")
    observed_bytes: int | None = Field(
        description="Measured bytes of one checkpoint, as given. Null when the scenario has none."
    )
    observed_over_logical: float | None = Field(
        description="Ratio of the measured size to logical_bytes. Null without observed_bytes."
    )
    written_bytes: int = Field(
        description="Bytes that times and rates are computed from: observed_bytes when given, else total_bytes."
    )
    bytes_per_parameter: float = Field(
        description="Bytes of state per parameter, logical_bytes over all parameters; 14 for mixed precision with "
        "Adam in Megatron."
    )
    num_files: int = Field(description="Files of one checkpoint, empty ones of ZeRO-3 too; .metadata is not counted.")
    container_bytes: int = Field(description="Bytes of headers and pickles in the files, not part of total_bytes.")
    small_state_bytes: dict[str, int] = Field(
        description="Bytes of non-tensor data by kind (random-number generators, scheduler and data position, "
        ".metadata), not part of total_bytes."
    )
    parts: dict[PartName, PartSize] = Field(description="Size of each saved part: weights, master copy, moments, EMA.")
    replicated: list[ReplicatedTensors] = Field(
        description="Tensors that the files hold more than once, and how often."
    )


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
    logical = {part.name: _logical_bytes(inventory, part) for part in parts}
    num_parameters = sum(group.num_parameters for group in inventory)
    files = written_files(writers)
    written = {part.name: sum(n * file.bytes_of((part.name,)) for n, file in files) for part in parts}
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
        num_files=sum(n * file.count for n, file in files),
        container_bytes=sum(n * _container_bytes(saved_as.container, file) for n, file in files),
        small_state_bytes=_small_state(inventory, parts, has_metadata=saved_as.has_metadata, writers=writers),
        parts={part.name: _part_size(part, logical, written, num_parameters=num_parameters) for part in parts},
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


def _logical_bytes(inventory: Inventory, part: StatePart) -> int:
    return sum(group_bytes(group, part) for group in inventory)


def _part_size(
    part: StatePart, logical: Mapping[PartName, int], written: Mapping[PartName, int], *, num_parameters: int
) -> PartSize:
    return PartSize(
        dtype=part.dtype,
        bytes_per_parameter=logical[part.name] / num_parameters,
        logical_bytes=logical[part.name],
        replicated_bytes=written[part.name] - logical[part.name],
    )


def _small_state(
    inventory: Inventory, parts: tuple[StatePart, ...], *, has_metadata: bool, writers: tuple[WriterClass, ...]
) -> dict[str, int]:
    """Non-tensor data in the files."""
    num_writers = sum(writer.num_ranks for writer in writers)
    small = {
        "random-number generators": num_writers * GENERATOR_STATE_BYTES,
        "scheduler and data position": num_writers * SCHEDULER_AND_DATA_BYTES,
    }
    if has_metadata:
        num_shards = sum(n * file.num_tensors for n, file in written_files(writers))
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
