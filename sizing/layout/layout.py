"""From model, state and degrees to ranks, writers, files and bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sizing.cluster import Cluster, ResolvedNode
from sizing.errors import InvalidInput
from sizing.layout.cells import Cell, cells_of
from sizing.layout.chunks import split_assumptions
from sizing.layout.file_settings import CheckpointFiles
from sizing.layout.files import Plan, WriterClass, Written
from sizing.layout.fit import check_fit
from sizing.layout.formats import CheckpointFormat, check_format, format_of
from sizing.layout.gradient_errors import GradientErrors, check_compression, errors_part, with_errors
from sizing.layout.optimizer_sharding import optimizer_sharding_of
from sizing.layout.parallelism import DEFAULT_RANK_ORDER, Parallelism
from sizing.layout.ranks import Layout, WritersOnNodes, layout_of, writers_on_nodes
from sizing.layout.sharding import Sharding, has_distributed_optimizer, zero_stage_of
from sizing.layout.shards import Content
from sizing.layout.size import CheckpointSize, size_of
from sizing.layout.stages import StageSpan, stage_spans
from sizing.model import ResolvedModel
from sizing.model.inventory import Inventory, with_counts, with_ends_on_one_stage
from sizing.model.trained import with_adapters, with_frozen
from sizing.provenance import Assumption
from sizing.state import StatePart, Training, saved_parts
from sizing.state.optimizers import WHOLE_MATRICES, needs_matrices
from sizing.state.saved_state import RANK_PART, PartName
from sizing.state.training import Precision

PLANS_KEPT = 32
"""Of the last layouts: one and its alternatives share a few."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """Who writes what, wherever the ranks stand.

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
    cells: tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True)
class LaidOut(Saved):
    """Who writes what, on which nodes, and what later steps need of how that was asked."""

    on_nodes: WritersOnNodes
    saved_as: CheckpointFormat
    sharding: Sharding
    assumptions: tuple[Assumption, ...]

    @functools.cached_property
    def layout(self) -> Layout:
        """The block of the report, with every class of ranks, which few need who ask what a layout demands."""
        return layout_of(self.on_nodes, size=self.size, writers=self.writers, container=self.saved_as.container)


def lay_out(
    model: ResolvedModel,
    training: Training,
    parallelism: Parallelism,
    *,
    node: ResolvedNode,
    cluster: Cluster,
    checkpoint: CheckpointFiles,
    deals_whole: bool = True,
) -> LaidOut:
    """Sizes and writers of one checkpoint. Without `deals_whole`, whole shards are taken as shared evenly.

    Raises InvalidInput where the degrees do not fit the model or the number of GPUs, or the format does not
    fit the framework.
    """
    saved_as = _format(model, training, parallelism, cluster=cluster, checkpoint=checkpoint)
    inventory = trained_inventory(model.inventory, training)
    sharding = saved_as.sharding(training, parallelism)
    _check_compression(training, sharding, inventory)
    saved = _saved(
        _Question(
            saved_as,
            inventory,
            model.num_layers,
            _numbered_by_default(parallelism),
            _parts(saved_as, training, parallelism, sharding, inventory),
            training.precision,
            files_per_rank=checkpoint.files_per_rank or 1,
            experts_per_rank=(model.num_experts or 0) // parallelism.expert,
            deals_whole=deals_whole or not saved_as.deals_shards,
            is_folded=training.folds_pipeline,
            errors=_saved_errors(training, parallelism),
            observed_bytes=checkpoint.observed_bytes,
        )
    )
    return LaidOut(
        **vars(saved),
        on_nodes=writers_on_nodes(parallelism, node=node, size=saved.size, writers=saved.writers),
        saved_as=saved_as,
        sharding=sharding,
        assumptions=(
            *_assumptions(saved_as, training, parallelism, checkpoint),
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
    """The format, once all of its degrees and settings are found to fit."""
    saved_as = format_of(checkpoint.format, training.framework)
    # Before the model speaks: its remedies name degrees that a format may not take.
    check_format(
        saved_as,
        training,
        parallelism,
        mode=checkpoint.mode,
        files_per_rank=checkpoint.files_per_rank,
        optimizer_sharding=checkpoint.optimizer_sharding,
    )
    check_fit(model, parallelism, cluster, training.framework)
    return saved_as.saving(optimizer_sharding_of(training, checkpoint.optimizer_sharding))


def _parts(
    saved_as: CheckpointFormat,
    training: Training,
    parallelism: Parallelism,
    sharding: Sharding,
    inventory: Inventory,
) -> tuple[StatePart, ...]:
    return saved_parts(
        training,
        has_weights_beside_master=saved_as.has_weights_beside_master(parallelism),
        copies_fp32_weights=sharding.copies_fp32_weights,
        has_frozen=not all(group.is_trained for group in inventory),
    )


def _check_compression(training: Training, sharding: Sharding, inventory: Inventory) -> None:
    has_bare_counts = any(group.placement == "spread" and group.is_trained for group in inventory)
    check_compression(training, sharding, has_bare_counts=has_bare_counts)


def _numbered_by_default(parallelism: Parallelism) -> Parallelism:
    """The same degrees with ranks in the default order, which decides where they stand and not what they write."""
    if parallelism.rank_order == DEFAULT_RANK_ORDER:
        return parallelism
    return parallelism.model_copy(update={"rank_order": DEFAULT_RANK_ORDER})


def _saved_errors(training: Training, parallelism: Parallelism) -> GradientErrors | None:
    """What ranks keep of their own, where each saves it."""
    given = training.gradient_compression
    is_saved = given is not None and given.saves_errors
    return GradientErrors.of(training, _numbered_by_default(parallelism)) if is_saved else None


def _max_dense(cells: Sequence[Cell], errors: GradientErrors | None) -> Content:
    """What the rank with the max of dense parameters holds, with the max of what a rank has of its own."""
    found = max((cell.dense for cell in cells), key=lambda content: content.parameters)
    if errors is None:
        return found
    return replace(found, part_bytes=found.part_bytes | {RANK_PART: max(map(errors.kept_bytes, cells))})


class _Question(NamedTuple):
    """All that decides who writes what: nothing of nodes and storage."""

    saved_as: CheckpointFormat
    inventory: Inventory
    num_layers: int
    parallelism: Parallelism
    parts: tuple[StatePart, ...]
    precision: Precision
    files_per_rank: int
    experts_per_rank: int
    deals_whole: bool
    is_folded: bool
    errors: GradientErrors | None
    observed_bytes: int | None


@functools.lru_cache(maxsize=PLANS_KEPT)
def _saved(asked: _Question) -> Saved:
    """Who writes what; kept for the last questions, as alternatives on other nodes ask the same."""
    spans = stage_spans(asked.inventory, asked.parallelism, num_layers=asked.num_layers, is_folded=asked.is_folded)
    cells, parts = cells_of(spans, asked.parallelism, asked.parts), asked.parts
    writers = tuple(asked.saved_as.writer_classes(_plan(asked, spans, cells)))
    errors = asked.errors if asked.errors is not None and any(map(asked.errors.kept_bytes, cells)) else None
    if errors is not None:
        writers = with_errors(writers, cells, errors, format_name=asked.saved_as.name)
        parts = (*parts, errors_part(errors))
    written = Written.of(writers, parts)
    return Saved(
        size=size_of(
            asked.inventory,
            parts,
            asked.parallelism,
            saved_as=asked.saved_as,
            written=written,
            observed_bytes=asked.observed_bytes,
        ),
        dense_bytes=written.dense_bytes,
        expert_bytes=written.expert_bytes,
        max_dense=_max_dense(cells, errors),
        max_expert=max((cell.expert for cell in cells), key=lambda content: content.parameters),
        num_trained_parameters=sum(group.num_parameters for group in asked.inventory if group.is_trained),
        writers=writers,
        parts=parts,
        cells=cells,
    )


def _plan(asked: _Question, spans: tuple[StageSpan, ...], cells: tuple[Cell, ...]) -> Plan:
    return Plan(
        inventory=asked.inventory,
        spans=spans,
        cells=cells,
        parallelism=asked.parallelism,
        parts=asked.parts,
        precision=asked.precision,
        files_per_rank=asked.files_per_rank,
        experts_per_rank=asked.experts_per_rank,
        deals_whole=asked.deals_whole,
    )


def trained_inventory(inventory: Inventory, training: Training) -> Inventory:
    """The inventory with what is frozen marked, the adapters, and the models beside the policy.

    Raises InvalidInput for a name that no tensor has, or an optimizer that needs the shapes of tensors not known.
    """
    if training.adapters is not None:
        adapters = training.adapters
        field = "training.adapters.tensors"
        inventory = with_adapters(inventory, rank=adapters.rank, names=adapters.tensors, field=field)
    if training.frozen:
        inventory = with_frozen(inventory, training.frozen, field="training.frozen")
    if training.folds_pipeline:
        inventory = with_ends_on_one_stage(inventory)
    inventory = with_counts(inventory, _other_models(training))
    _check_matrices(inventory, training)
    return inventory


def _check_matrices(inventory: Inventory, training: Training) -> None:
    """Refuse an optimizer that needs the shapes of tensors where a trained model is a bare number of parameters."""
    bare = any(group.placement == "spread" and group.is_trained for group in inventory)
    if bare and needs_matrices(training.optimizer):
        raise InvalidInput.of(
            "training.optimizer",
            "must be one that needs no shapes of tensors where a trained model is given by its parameter count alone",
            value=training.optimizer,
            remedy="choose another, or describe the model by preset, architecture, huggingface_config or tensors",
        )


def _other_models(training: Training) -> Iterator[tuple[str, int, bool]]:
    """Models that are saved beside the one that `model` describes, by their counts."""
    models = training.reinforcement
    if models is not None and models.critic_parameters is not None:
        yield "critic", models.critic_parameters, True
    if models is not None and models.saved_frozen_parameters is not None:
        yield "frozen_models", models.saved_frozen_parameters, False


def _assumptions(
    saved_as: CheckpointFormat, training: Training, parallelism: Parallelism, checkpoint: CheckpointFiles
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
    if training.optimizer in WHOLE_MATRICES:
        reason = WHOLE_MATRICES[training.optimizer]
        yield Assumption(field="layout.optimizer_statistics", value="of the shard that a rank holds", reason=reason)
    yield from saved_as.assumptions
