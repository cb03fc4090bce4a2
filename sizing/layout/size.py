"""The `checkpoint` block of the report: the bytes of one checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from sizing.frameworks.framework import SmallFile
from sizing.layout.containers import (
    GENERATOR_STATE_BYTES,
    METADATA,
    SCHEDULER_AND_DATA_BYTES,
    Metadata,
    container_bytes,
    metadata_bytes,
)
from sizing.layout.files import FileTotals
from sizing.layout.formats import CheckpointFormat, FormatName
from sizing.layout.formats.megatron_shards import fused_name
from sizing.layout.parallelism import Parallelism
from sizing.layout.trained_model import FROZEN_MODELS
from sizing.model import TensorGroup
from sizing.model.inventory import Inventory
from sizing.state import StatePart
from sizing.state.saved_state import PartName, SavedDtype
from sizing.strict_model import StrictModel
from sizing.units import decimal_bytes_text


class PartSize(StrictModel):
    """One part of the saved state, over the whole checkpoint."""

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


class ReplicatedTensors(StrictModel):
    """Tensors that stand in the files more than once."""

    tensors: str = Field(description="Name of the group of tensors that the files repeat.")
    copies: int = Field(
        description="How many times the files hold each of these tensors, in the part that they repeat most. Weights "
        "may be saved once, their master copy and moments by each tensor rank. Of statistics that each rank keeps of "
        "its shards it is the bytes of all over those of whole matrices, rounded up."
    )
    replicated_bytes: int = Field(description="Bytes beyond the first copy, over all saved parts.")


class CheckpointSize(StrictModel):
    """The `checkpoint` block of the report: the bytes of one checkpoint."""

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
        description="Bytes that times and rates are computed from, before any checkpoint.reduction: observed_bytes "
        "when given, else total_bytes x stored_fraction."
    )
    bytes_per_parameter: float = Field(
        description="Bytes of state per parameter: logical_bytes over the parameters of the model and of a critic. "
        "Frozen models that are saved beside them are not counted. 14 for mixed precision with Adam in Megatron."
    )
    num_files: int = Field(
        description="Files of one checkpoint, empty ones of ZeRO-3, small_files and small_files_of_ranks too. The "
        "model's config and tokenizer, which trainers write beside them, are not counted."
    )
    num_rank_files: int = Field(description="Files that the ranks write together, without the small ones.")
    small_files: list[str] = Field(
        description="Files without tensors that rank 0 writes beside those of all ranks, such as .metadata. Writing "
        "them is part of the planning time of a save, not of the time for files."
    )
    small_files_of_ranks: list[str] = Field(
        description="Files without tensors of which each rank writes one, RANK being its number, such as the random "
        "states of Hugging Face Trainer."
    )
    container_bytes: int = Field(description="Bytes of headers and pickles in the files, not part of total_bytes.")
    small_state_bytes: dict[str, int] = Field(
        description="Bytes of non-tensor data by kind (random-number generators, scheduler and data position, "
        ".metadata), not part of total_bytes."
    )
    stored_fraction: float = Field(
        description="Fraction of total_bytes that the format's own compression leaves, as in Orbax; 1 in others."
    )
    parts: dict[PartName, PartSize] = Field(
        description="Size of each saved part: weights, master copy, moments, EMA, errors of gradients."
    )
    replicated: list[ReplicatedTensors] = Field(
        description="Tensors that the files hold more than once, and how often."
    )

    @property
    def copied_over_written(self) -> float:
        """Bytes in memory over those in the files; 1 where these were measured, as nobody measured the others."""
        return 1.0 if self.observed_bytes else self.total_bytes / self.written_bytes


def size_of(
    inventory: Inventory,
    parts: tuple[StatePart, ...],
    parallelism: Parallelism,
    *,
    saved_as: CheckpointFormat,
    totals: FileTotals,
    small_files: Sequence[SmallFile],
    observed_bytes: int | None,
    stored_fraction: float,
) -> CheckpointSize:
    """Compute the `checkpoint` block from an inventory and the totals of its files."""
    num_parameters = sum(group.num_parameters for group in inventory if group.name != FROZEN_MODELS)
    # Statistics of whole matrices are fewer where ranks keep those of their shards.
    part_totals = {part.name: totals.bytes_of(part.name) for part in parts}
    logical = {
        part.name: part_totals[part.name]
        if part.is_of_rank
        else min(sum(group_bytes(group, part) for group in inventory), part_totals[part.name])
        for part in parts
    }
    of_rank_0 = [each.name for each in small_files if not each.is_of_each_rank]
    of_ranks = [each.name for each in small_files if each.is_of_each_rank]
    beside = {
        each.name: each.num_bytes * (parallelism.num_gpus if each.is_of_each_rank else 1)
        for each in small_files
        if each.num_bytes
    }
    total, logical_total = sum(part_totals.values()), sum(logical.values())
    return CheckpointSize(
        format=saved_as.name,
        logical_bytes=logical_total,
        replicated_bytes=total - logical_total,
        total_bytes=total,
        observed_bytes=observed_bytes,
        observed_over_logical=observed_bytes / logical_total if observed_bytes else None,
        written_bytes=observed_bytes or round(total * stored_fraction),
        stored_fraction=stored_fraction,
        bytes_per_parameter=logical_total / num_parameters,
        num_files=totals.num_files + len(of_rank_0) + len(of_ranks) * parallelism.num_gpus,
        num_rank_files=totals.num_files,
        small_files=of_rank_0,
        small_files_of_ranks=of_ranks,
        container_bytes=container_bytes(saved_as.container, num_files=totals.num_files, num_tensors=totals.num_tensors),
        small_state_bytes=_small_state_bytes(inventory, parts, saved_as=saved_as, totals=totals, beside=beside),
        parts={
            part.name: PartSize(
                dtype=part.dtype_text,
                bytes_per_parameter=logical[part.name] / num_parameters,
                logical_bytes=logical[part.name],
                replicated_bytes=part_totals[part.name] - logical[part.name],
            )
            for part in parts
        },
        replicated=_count_replicated(inventory, parts, parallelism, saved_as=saved_as, totals=totals, logical=logical),
    )


LIKE_PREDICTED = (0.75, 4 / 3)
"""Range of observed over predicted bytes that gives no reason to doubt either. Frameworks differ in what they keep of a
parameter by steps of 2 of 14 bytes; headers, padding and copies take a few percent."""


def size_warnings(size: CheckpointSize) -> Iterator[str]:
    """Warn if a measured size does not fit the scenario: weights only, another model or another precision."""
    if size.observed_bytes is None:
        return
    ratio, (low, high) = size.observed_bytes / (size.total_bytes * size.stored_fraction), LIKE_PREDICTED
    if not low <= ratio <= high:
        yield (
            f"checkpoint.observed_bytes is {ratio:.3g} x the {decimal_bytes_text(size.total_bytes)} that this scenario "
            "saves. Check that it is a whole checkpoint of this model, and training.framework and precision"
        )


def group_bytes(group: TensorGroup, part: StatePart) -> int:
    """Count the bytes that a part keeps of a group, each logical tensor once.

    Tensors x bytes of one tensor; 0 of frozen tensors where the part keeps none of them, or of trained ones.
    Source: definition.

    >>> group_bytes(TensorGroup("norm", (64,), 1, layers=range(3)), StatePart("weights", "bf16"))
    384
    """
    kept = part.of(is_trained=group.is_trained, name=group.name)
    if kept is None:
        return 0
    per_parameter = kept.bytes_per_parameter
    if per_parameter is not None:
        return group.num_parameters * per_parameter
    return group.num_tensors * kept.tensor_bytes(group.shape, role=group.role)


def kept_by(inventory: Inventory, part: StatePart) -> Inventory:
    """Select the tensors of which a part keeps anything."""
    return tuple(group for group in inventory if part.is_kept_of(is_trained=group.is_trained))


def weights_bytes(inventory: Inventory, dtype: SavedDtype) -> int:
    """Count the bytes of all weights in a dtype, each once.

    Source: `group_bytes`.

    >>> weights_bytes((TensorGroup("norm", (64,), 1, layers=range(3)),), "bf16")
    384
    """
    part = StatePart("weights", dtype, is_kept_of_frozen=True)
    return sum(group_bytes(group, part) for group in inventory)


def _small_state_bytes(
    inventory: Inventory,
    parts: tuple[StatePart, ...],
    *,
    saved_as: CheckpointFormat,
    totals: FileTotals,
    beside: Mapping[str, int],
) -> dict[str, int]:
    """Count the bytes of the data in the files that is no tensor, by its kind, or by the file that it has beside."""
    small = dict(beside)
    if not beside:
        small["random-number generators"] = totals.num_writers * GENERATOR_STATE_BYTES
        small["scheduler and data position"] = totals.num_writers * SCHEDULER_AND_DATA_BYTES
    if saved_as.planning is not None:
        metadata = saved_as.planning.metadata
        planned = [part for part in parts if not part.is_of_rank]
        num_tensors = sum(part.num_statistics * _num_names(kept_by(inventory, part), metadata) for part in planned)
        small[METADATA] = metadata_bytes(metadata, num_tensors=num_tensors, num_shards=totals.num_shards)
    return small


def _num_names(inventory: Inventory, metadata: Metadata) -> int:
    """Count the names of tensors in `.metadata`, for each statistic of a part."""
    if metadata.is_fused:
        names = {group.name for group in inventory}
        fused = {fused_name(name) for name in names}
        return sum(group.num_tensors for group in inventory if group.name not in fused)
    if not metadata.is_stacked:
        return sum(group.num_tensors for group in inventory)
    is_unlike = any(group.experts for group in inventory)
    return sum(len(group.layers) if is_unlike and group.placement == "layers" else 1 for group in inventory)


def _count_replicated(
    inventory: Inventory,
    parts: tuple[StatePart, ...],
    parallelism: Parallelism,
    *,
    saved_as: CheckpointFormat,
    totals: FileTotals,
    logical: Mapping[PartName, int],
) -> list[ReplicatedTensors]:
    """List the tensors that the files hold more than once, the most bytes first."""
    rows = []
    if totals.repeated_bytes:
        num_files = saved_as.num_files_with_optimizer(parallelism)
        rows.append(ReplicatedTensors(tensors="optimizer", copies=num_files, replicated_bytes=totals.repeated_bytes))
    parts = tuple(part for part in parts if not part.is_of_rank)
    for group in inventory:
        of_parts = [saved_as.num_copies(group, part.name, parallelism) for part in parts]
        extra = sum((n - 1) * group_bytes(group, part) for n, part in zip(of_parts, parts, strict=True) if n > 1)
        if extra:
            rows.append(ReplicatedTensors(tensors=group.name, copies=max(of_parts), replicated_bytes=extra))
    # Each rank keeps statistics of its own shards, such as Adafactor's of rows and columns: together more than of whole
    # matrices. No group of tensors is repeated with them.
    replicated_bytes = sum(totals.bytes_of(part.name) - logical[part.name] for part in parts)
    of_shards = replicated_bytes - sum(row.replicated_bytes for row in rows)
    if of_shards > 0:
        part = max(parts, key=lambda part: totals.bytes_of(part.name) / max(logical[part.name], 1))
        copies_at_most = -(-totals.bytes_of(part.name) // logical[part.name])
        rows.append(
            ReplicatedTensors(tensors=f"{part.name} of shards", copies=copies_at_most, replicated_bytes=of_shards)
        )
    return sorted(rows, key=lambda row: -row.replicated_bytes)
