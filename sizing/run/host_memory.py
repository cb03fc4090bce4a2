"""Host memory of a node: what saves gather and stage there, and what the loaders of a restore hold."""

from __future__ import annotations

import math

from pydantic import Field

from sizing.cluster import ResolvedNode
from sizing.layout import CheckpointLayout, Parallelism
from sizing.run.checkpoint import MEMORY_KINDS, Checkpoint, held_bytes
from sizing.run.read_plan import ReadPlan
from sizing.strict_model import StrictModel


class HostMemory(StrictModel):
    """The `host_memory` block of the report, of the fullest writing node and of one that restores."""

    gathered_bytes: int = Field(
        description="Max bytes of other ranks' state that the node's writers gather before they write."
    )
    staged_bytes: int = Field(
        description="Max bytes copied from the node's GPUs and kept until they are written. For each of its writers "
        "the whole share, or checkpoint.staging_bytes where that is less. 0 with mode sync, except in torch-dist, "
        "which copies the whole share in both modes."
    )
    tier_bytes: int = Field(
        0, description="Bytes that tiers in memory keep on the node, copies from its peers included."
    )
    delta_base_bytes: int = Field(
        0,
        description="Bytes of the state before, one whole share for each of the node's writers, that "
        "checkpoint.reduction.delta makes deltas from; 0 without deltas.",
    )
    offloaded_bytes: int = Field(
        0,
        description="Bytes of state and activations that training.offload keeps there all the time; 0 without offload.",
    )
    restore_bytes: int = Field(
        0,
        description="Max bytes that the node's ranks hold of what they read in a restore, all of them at once. Whole "
        "files where they are pickled, with DCP two tensors as they stand in the files, with Orbax what is in flight. "
        "0 where tensors are read one by one and only a number of parameters is given.",
    )
    node_bytes: int | None = Field(description="Host memory of one node, in bytes. Null when the node does not say.")
    usable_bytes: int | None = Field(
        None,
        description="Host memory that a job can take of it, in bytes, without what system and services keep. "
        "Null when node_bytes is.",
    )
    fits: bool | None = Field(description="Whether all that a save needs fits usable_bytes. Null when that is unknown.")
    fits_restore: bool | None = Field(
        None,
        description="Whether what a restore needs fits usable_bytes, beside offloaded_bytes. "
        "Null when that is unknown.",
    )

    @property
    def needed_bytes(self) -> int:
        """Host memory that saves and offloaded state need together, beside what the training itself takes."""
        return self.saving_bytes + self.offloaded_bytes

    @property
    def needed_high_bytes(self) -> int:
        """Upper end of what saves and offloaded state need, with buffers: n f, of n bytes needed, f BUFFER_FACTOR."""
        return round(self.needed_bytes * BUFFER_FACTOR)

    @property
    def restoring_bytes(self) -> int:
        """Host memory that a restore needs: the state that stays there, and what loaders hold beside it."""
        return self.restore_bytes + self.offloaded_bytes

    @property
    def saving_bytes(self) -> int:
        """Host memory that saves alone need."""
        return self.gathered_bytes + self.staged_bytes + self.tier_bytes + self.delta_base_bytes


BUFFER_FACTOR = 1.5
"""What may be needed over what is counted: copies that pickling makes, pages that are not written yet, data loaders.

Source: DeepSpeed 0.19.8, `additional_buffer_factor` of estimate_zero3_model_states_mem_needs.
"""


def host_memory(
    checkpoint_layout: CheckpointLayout,
    parallelism: Parallelism,
    *,
    node: ResolvedNode,
    checkpoint: Checkpoint,
    plan: ReadPlan,
    offloaded_bytes: int = 0,
) -> HostMemory:
    """What one node's ranks gather, stage, keep and read, beside what training keeps there.

    What lies there already is staged all the same: the next step changes it while a save drains. `parallelism` are
    the degrees that save, and a restore reads as `plan` says.

    Gathered is the largest file that is gathered x the max writers on a node; where each rank gathers what its replicas
    divide, the state of the fullest rank x the ranks of a node.

    Asynchronous saving stages what each of them writes, once, up to its budget: the next save waits until the last one
    has drained. Formats that write from copies stage the whole share in each save. A tier in memory keeps its
    checkpoints, `held_bytes` of the fullest node's, and is drained from. Deltas are made from the whole state of an
    earlier save to the main storage, which each writer keeps beside all this.

    A restore holds `HostLoading.held_bytes` of the fullest rank x the reading ranks of a node; where rank 0 reads what
    the others do not, its node alone holds that.
    Source: the formats' own, `layout/formats`; a node holds the budget once per local process, marin-community/marin
    pull request 8469; an upper estimate where the writers' files differ.
    """
    max_writers = checkpoint_layout.on_nodes.max_writers_per_node
    share = round(checkpoint_layout.on_nodes.max_rank_bytes * checkpoint_layout.size.copied_over_written)
    gathered, usable = _gathered_bytes(checkpoint_layout), node.spec.usable_host_memory_bytes
    written = max_writers * share
    of_node = checkpoint_layout.on_nodes.max_node_bytes * checkpoint_layout.size.copied_over_written
    kept = sum(round(float(held_bytes(tier, of_node))) for tier in checkpoint.tiers if tier.kind in MEMORY_KINDS)
    staged = 0
    if checkpoint.mode == "async" and not kept:
        staged = max_writers * (share if checkpoint.staging_bytes is None else min(share, checkpoint.staging_bytes))
    elif checkpoint_layout.saved_as.stages_always and not kept:
        staged = written
    base = written if checkpoint.reduction is not None and checkpoint.reduction.delta is not None else 0
    restore = _restore_bytes(checkpoint_layout, parallelism, plan)
    return HostMemory(
        gathered_bytes=gathered,
        staged_bytes=staged,
        tier_bytes=kept,
        delta_base_bytes=base,
        offloaded_bytes=offloaded_bytes,
        restore_bytes=restore,
        node_bytes=node.spec.host_memory_bytes,
        usable_bytes=usable,
        fits=None if usable is None else gathered + staged + kept + base + offloaded_bytes <= usable,
        fits_restore=None if usable is None else restore + offloaded_bytes <= usable,
    )


def _restore_bytes(checkpoint_layout: CheckpointLayout, parallelism: Parallelism, plan: ReadPlan) -> int:
    """Bytes that the reading ranks of a node hold of what they read, each as much as the fullest.

    Ranks that read in one step also read in those that have more readers on a node.
    """
    loading = checkpoint_layout.saved_as.host_loading
    largest = _largest_tensor_bytes(checkpoint_layout, parallelism) if loading.tensors_at_once else 0.0
    of_step = zip(plan.steps, plan.max_rank_bytes_of_steps, strict=True)
    readers = sorted(((float(step.num_streams / step.num_nodes), read) for step, read in of_step), reverse=True)
    of_node = of_rank = held = 0.0
    for num_readers, read_bytes in readers:
        of_rank += read_bytes * checkpoint_layout.size.copied_over_written
        before, held = held, loading.held_bytes(of_rank, largest_tensor_bytes=largest)
        of_node += num_readers * (held - before)
    return math.ceil(of_node)


def _largest_tensor_bytes(checkpoint_layout: CheckpointLayout, parallelism: Parallelism) -> float:
    """Bytes of the largest tensor as it stands in a file: a shard of a tensor, or a rank's flat buffer of a statistic.

    The experts of a layer are one tensor where the format stacks them. 0 where only a number of parameters is known.
    """
    saved_as, parts = checkpoint_layout.saved_as, checkpoint_layout.parts
    shards = saved_as.num_shards(parallelism)
    per_value = max(
        (each.bytes_per_parameter or _VALUE_BYTES) / part.num_statistics
        for part in parts
        for each in (part.of_trained, part.of_frozen)
    )
    whole = max(
        (
            math.prod(holding.shape)
            * (holding.experts or 1 if saved_as.host_loading.stacks_experts else 1)
            / (shards.expert if holding.experts else shards.dense)
            for span in {id(holder.span): holder.span for holder in checkpoint_layout.holders}.values()
            for holding in span.holdings
            if not holding.is_spread
        ),
        default=0.0,
    )
    flat = max(
        (
            (file.bytes_of((part.name,)) - sum(each.num_bytes for each in file.assigned if each.part.name == part.name))
            / part.num_statistics
            for writer in checkpoint_layout.writers
            for file in writer.files
            if file.assigned or file.holds == "flat-buffers"
            for part in parts
        ),
        default=0.0,
    )
    return max(whole * per_value, flat)


_VALUE_BYTES = 4
"""Bytes of a value of statistics whose bytes depend on the tensor: fp32 is the largest dtype that is saved."""


def _gathered_bytes(checkpoint_layout: CheckpointLayout) -> int:
    """Bytes that the fullest node's writers hold when the last of them has gathered its file."""
    layout, parts = checkpoint_layout.on_nodes, checkpoint_layout.gathered_parts
    if checkpoint_layout.saved_as.gathers_on_every_rank:
        held = sum(
            sum(content.of(parts).values()) for content in (checkpoint_layout.max_dense, checkpoint_layout.max_expert)
        )
        return held * min(layout.gpus_per_node, layout.num_gpus)
    largest = max(file.bytes_of(parts) for writer in checkpoint_layout.writers for file in writer.files)
    return largest * layout.max_writers_per_node
