"""Lay out a checkpoint: from model, state and degrees to ranks, writers, files and bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from pydantic import Field

from sizing.cluster import Cluster, ResolvedNode
from sizing.frameworks import FRAMEWORKS, saved_parts
from sizing.frameworks.framework import OptimizerSharding, SmallFile
from sizing.frameworks.saved_parts import nothing_to_save
from sizing.layout.chunks import split_assumptions
from sizing.layout.files import FileTotals, Plan, WriterClass
from sizing.layout.fit import check_fit
from sizing.layout.formats import CheckpointFormat, FormatName, Mode, check_format, format_of
from sizing.layout.gradient_errors import GradientErrors, check_compression, errors_part, with_errors
from sizing.layout.holders import Content, HolderClass, holder_classes
from sizing.layout.parallelism import DEFAULT_RANK_ORDER, Parallelism
from sizing.layout.placement import require_walkable
from sizing.layout.ranks import Layout, WritersOnNodes, layout_of, writers_on_nodes
from sizing.layout.sharding import (
    Sharding,
    has_distributed_optimizer,
    optimizer_sharding_of,
    resident_holders,
    with_placed_tables,
    zero_stage_of,
)
from sizing.layout.size import CheckpointSize, size_of
from sizing.layout.stages import stage_spans
from sizing.layout.trained_model import adapter_assumptions, has_bare_counts, trained_inventory
from sizing.model import ResolvedModel
from sizing.model.inventory import Inventory
from sizing.provenance import Assumption
from sizing.ranges import plausible_choice
from sizing.spelling import AnySpelling
from sizing.state import StatePart, Training
from sizing.state.optimizers import WHOLE_MATRICES
from sizing.state.saved_state import RANK_PART, PartName
from sizing.state.training import Precision
from sizing.strict_model import InputModel
from sizing.units import ByteCount, Fraction, OrText

_SHIP_ASYNC = " or ".join(
    name
    for name, each in FRAMEWORKS.items()
    if any((default.field, default.value) == ("checkpoint.mode", "async") for default in each.defaults)
)


class CheckpointFiles(InputModel):
    """Which files are written, and how."""

    format: FormatName | None = Field(
        None,
        description="Layout of the files; `ckpt-size formats` lists them. full, sharded and dcp name the one that the "
        "framework has of that kind. Default: the one that it writes by itself.",
    )
    mode: AnySpelling[Mode] = Field(
        "sync",
        description="How training waits for a save. "
        "With sync for all of it, with async for the copy to host memory and what the format does before it. "
        f"Default with framework {_SHIP_ASYNC}: async.",
    )
    files_per_rank: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None,
        description="Files that each rank writes in torch-dist. "
        "Default: 1, as Megatron-Core from 0.17 on; 0.6 to 0.16 wrote 2.",
    )
    optimizer_sharding: AnySpelling[OptimizerSharding] | None = Field(
        None,
        description="How torch-dist saves a distributed optimizer. With dp-reshardable as the shares of the ranks, "
        "which only other data and context degrees can read; with fully-reshardable gathered, tensor by tensor, which "
        "any layout can read. Default: dp-reshardable, as Megatron-LM ships.",
    )
    observed_bytes: ByteCount | None = Field(
        None,
        description="Measured bytes of one checkpoint. Times and rates use them in place of the computed size. "
        "Default: the computed size.",
    )
    stored_fraction: OrText[Annotated[Fraction, Field(gt=0, le=1)]] | None = Field(
        None,
        description="Fraction of the bytes that the format's own compression leaves, in Orbax zstd. "
        "Default: 0.93 of 32-bit and 0.79 of 16-bit values in orbax; 1 beside reduction.compression, which takes its "
        "place, and in other formats.",
    )

    @property
    def is_compressed_by_format(self) -> bool:
        """Whether the format's own compression is what compresses."""
        return True


PLANS_KEPT = 32
"""Layouts in the cache: one and its alternatives share a few."""


@dataclass(frozen=True, kw_only=True)
class RankContents:
    """What the ranks write, on whatever nodes they stand.

    `dense_bytes` and `expert_bytes` are those of each part in the files; `max_dense` and `max_expert` are what the
    rank with the max of parameters holds.
    """

    size: CheckpointSize
    dense_bytes: dict[PartName, int]
    expert_bytes: dict[PartName, int]
    max_dense: Content
    max_expert: Content
    num_trained_parameters: int
    writers: tuple[WriterClass, ...]
    parts: tuple[StatePart, ...]
    holders: tuple[HolderClass, ...]


@dataclass(frozen=True, kw_only=True)
class CheckpointLayout(RankContents):
    """Files of a checkpoint by writer and node, with the format, sharding and assumptions that later steps need."""

    on_nodes: WritersOnNodes
    saved_as: CheckpointFormat
    sharding: Sharding
    assumptions: tuple[Assumption, ...]

    @property
    def gathered_parts(self) -> tuple[PartName, ...]:
        """Parts that are gathered from other ranks in host memory before the write."""
        return self.saved_as.gathered_parts(self.sharding)

    @property
    def fullest_node_over_mean(self) -> float:
        """Bytes that the fullest node writes over those of a node with most writers, if all wrote the same."""
        num_nodes = self.on_nodes.num_writers / self.on_nodes.max_writers_per_node
        return self.on_nodes.max_node_bytes * num_nodes / self.size.written_bytes

    @functools.cached_property
    def layout(self) -> Layout:
        """`layout` block of the report with every class of ranks. It is computed only on demand."""
        return layout_of(self.on_nodes, size=self.size, writers=self.writers, container=self.saved_as.container)


def lay_out(
    model: ResolvedModel,
    training: Training,
    parallelism: Parallelism,
    *,
    node: ResolvedNode,
    cluster: Cluster,
    checkpoint: CheckpointFiles,
    assigns_whole: bool = True,
) -> CheckpointLayout:
    """Compute sizes and writers of one checkpoint. Without `assigns_whole`, ranks share whole shards evenly.

    Raises InvalidInput if the degrees do not fit the model or the number of GPUs, or if the format does not fit the
    framework.
    """
    saved_as = _format(model, training, parallelism, cluster=cluster, checkpoint=checkpoint)
    inventory = trained_inventory(model.inventory, training)
    sharding = saved_as.sharding(training, parallelism)
    check_compression(training, sharding, has_bare_counts=has_bare_counts(inventory))
    numbered = parallelism  # ranks in the default order: another decides where they stand, not what they write
    if parallelism.rank_order != DEFAULT_RANK_ORDER:
        numbered = parallelism.model_copy(update={"rank_order": DEFAULT_RANK_ORDER})
    compression = training.gradient_compression
    saves_errors = compression is not None and compression.saves_errors
    contents = _save(
        _SaveInputs(
            saved_as,
            inventory,
            model.num_layers,
            numbered,
            saved_parts(
                training,
                has_weights_beside_master=saved_as.has_weights_beside_master(parallelism),
                copies_fp32_weights=sharding.copies_fp32_weights,
                has_frozen=not all(group.is_trained for group in inventory),
                is_sharded=sharding.weights.dense > 1,
            ),
            training.precision,
            files_per_rank=checkpoint.files_per_rank or 1,
            experts_per_rank=(model.num_experts or 0) // parallelism.expert,
            assigns_whole=assigns_whole or not saved_as.assigns_shards,
            is_folded=training.folds_pipeline,
            errors=GradientErrors.of(training, numbered) if saves_errors else None,
            observed_bytes=checkpoint.observed_bytes,
            stored_fraction=checkpoint.stored_fraction,
            compresses=checkpoint.is_compressed_by_format,
            beside=FRAMEWORKS[training.framework].small_files_of(training, saved_as.name, parallelism.num_gpus),
        )
    )
    if not contents.size.written_bytes:
        raise nothing_to_save("weights of frozen tensors alone, which it leaves out")
    return CheckpointLayout(
        **vars(contents) | {"holders": resident_holders(contents.holders, training, parallelism, sharding)},
        on_nodes=writers_on_nodes(parallelism, node=node, size=contents.size, writers=contents.writers),
        saved_as=saved_as,
        sharding=with_placed_tables(sharding, contents.holders[0].span, parallelism),
        assumptions=(
            *_assumptions(saved_as, training, parallelism, checkpoint, contents.size),
            *adapter_assumptions(training, model.inventory, is_sharded=sharding.weights.dense > 1),
            *split_assumptions(parallelism, model.num_layers),
        ),
    )


def _format(
    model: ResolvedModel,
    training: Training,
    parallelism: Parallelism,
    *,
    cluster: Cluster,
    checkpoint: CheckpointFiles,
) -> CheckpointFormat:
    """Return the format, after checking that degrees and settings fit it."""
    saved_as = format_of(checkpoint.format, training.framework)
    # Before the model speaks: its remedies name degrees that a format may not take.
    check_format(
        saved_as,
        training,
        parallelism,
        mode=checkpoint.mode,
        files_per_rank=checkpoint.files_per_rank,
        optimizer_sharding=checkpoint.optimizer_sharding,
        stored_fraction=checkpoint.stored_fraction,
    )
    check_fit(model, parallelism, cluster, training.framework)
    if saved_as.walks_ranks:
        require_walkable(parallelism, format_name=saved_as.name)
    return saved_as.saving(optimizer_sharding_of(training, checkpoint.optimizer_sharding))


class _SaveInputs(NamedTuple):
    """Inputs that decide which rank writes what; nodes and storage do not."""

    saved_as: CheckpointFormat
    inventory: Inventory
    num_layers: int
    parallelism: Parallelism
    parts: tuple[StatePart, ...]
    precision: Precision
    files_per_rank: int
    experts_per_rank: int
    assigns_whole: bool
    is_folded: bool
    errors: GradientErrors | None
    observed_bytes: int | None
    stored_fraction: float | None
    compresses: bool
    beside: tuple[SmallFile, ...]


@functools.lru_cache(maxsize=PLANS_KEPT)
def _save(inputs: _SaveInputs) -> RankContents:
    """Compute which rank writes what. The cache serves alternatives on other nodes, which have the same files."""
    spans = stage_spans(inputs.inventory, inputs.parallelism, num_layers=inputs.num_layers, is_folded=inputs.is_folded)
    holders, parts = holder_classes(spans, inputs.parallelism, inputs.parts), inputs.parts
    plan = Plan(
        inventory=inputs.inventory,
        spans=spans,
        holders=holders,
        parallelism=inputs.parallelism,
        parts=parts,
        precision=inputs.precision,
        files_per_rank=inputs.files_per_rank,
        experts_per_rank=inputs.experts_per_rank,
        assigns_whole=inputs.assigns_whole,
    )
    writers = tuple(inputs.saved_as.writer_classes(plan))
    max_dense = max((holder.dense for holder in holders), key=lambda content: content.parameters)
    errors = inputs.errors
    if errors is not None and any(map(errors.kept_bytes, holders)):
        writers = with_errors(writers, holders, errors, format_name=inputs.saved_as.name)
        parts = (*parts, errors_part(errors))
        max_errors = {RANK_PART: max(map(errors.kept_bytes, holders))}
        max_dense = replace(max_dense, part_bytes=max_dense.part_bytes | max_errors)
    totals = FileTotals.of(writers, parts)
    own_fraction = inputs.saved_as.stored_fraction(inputs.parts, totals) if inputs.compresses else 1.0
    return RankContents(
        size=size_of(
            inputs.inventory,
            parts,
            inputs.parallelism,
            saved_as=inputs.saved_as,
            totals=totals,
            small_files=(
                *(SmallFile(name) for name in inputs.saved_as.small_files(files_per_rank=inputs.files_per_rank)),
                *inputs.beside,
            ),
            observed_bytes=inputs.observed_bytes,
            stored_fraction=inputs.stored_fraction or own_fraction,
        ),
        dense_bytes=totals.dense_bytes,
        expert_bytes=totals.expert_bytes,
        max_dense=max_dense,
        max_expert=max((holder.expert for holder in holders), key=lambda content: content.parameters),
        num_trained_parameters=sum(
            group.num_parameters // (group.experts if group.is_shared else 1)
            for group in inputs.inventory
            if group.is_trained
        ),
        writers=writers,
        parts=parts,
        holders=holders,
    )


def _assumptions(
    saved_as: CheckpointFormat,
    training: Training,
    parallelism: Parallelism,
    checkpoint: CheckpointFiles,
    size: CheckpointSize,
) -> Iterator[Assumption]:
    if checkpoint.format is None:
        reason = f"default of framework {training.framework}"
        yield Assumption(field="checkpoint.format", value=saved_as.name, reason=reason)
    if "distributed_optimizer" in saved_as.takes and training.distributed_optimizer is None:
        field, value = "training.distributed_optimizer", has_distributed_optimizer(training)
        yield Assumption(field=field, value=value, reason="default of Megatron-LM, use_distributed_optimizer")
    sharding = optimizer_sharding_of(training, checkpoint.optimizer_sharding)
    if "optimizer_sharding" in saved_as.takes and sharding is not None and checkpoint.optimizer_sharding is None:
        reason = "default of Megatron-LM, dist_ckpt_optim_fully_reshardable off"
        yield Assumption(field="checkpoint.optimizer_sharding", value=sharding, reason=reason)
    if "zero_stage" in saved_as.takes and parallelism.zero_stage is None:
        yield Assumption(field="parallelism.zero_stage", value=zero_stage_of(parallelism), reason="default")
    is_given = checkpoint.stored_fraction is not None or size.observed_bytes is not None
    if saved_as.stored_fractions and checkpoint.is_compressed_by_format and not is_given:
        field = "checkpoint.stored_fraction"
        yield Assumption(field=field, value=size.stored_fraction, reason=plausible_choice(field).source)
    if parallelism.places_tables:
        reason = (
            "the largest first, each on the rank with the fewest columns, as TorchRec's planner places tables that are "
            "read equally often (GreedyPerfPartitioner)"
        )
        yield Assumption(field="layout.table_placement", value="balanced by columns", reason=reason)
    if training.optimizer in WHOLE_MATRICES:
        reason = WHOLE_MATRICES[training.optimizer]
        yield Assumption(field="layout.optimizer_statistics", value="of the shard that a rank holds", reason=reason)
    yield from saved_as.assumptions
