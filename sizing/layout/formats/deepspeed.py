"""DeepSpeed's format: weights from the first data rank, the optimizer as ZeRO shards it, files per layer and expert."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product

from sizing.layout.containers import CONTAINERS
from sizing.layout.files import (
    OPTIMIZER,
    WEIGHTS,
    AssignedTensors,
    File,
    PartBytes,
    Plan,
    SavingRank,
    WriterClass,
    flat_file,
    of_holder,
    runs,
    shares,
)
from sizing.layout.formats.base import (
    CheckpointFormat,
    Copies,
    RankShare,
    Readers,
    copies_in_a_replica,
    each_shard_once,
    every_replica,
)
from sizing.layout.holders import HolderClass, Shards, content_of, rank_shards
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import (
    WHOLE,
    ZERO_STAGE_OF_OPTIMIZER,
    ZERO_STAGE_OF_WEIGHTS,
    Sharding,
    zero_shards_optimizer,
    zero_stage_of,
)
from sizing.layout.stages import Holding
from sizing.model import TensorGroup
from sizing.state.saved_state import PartName

_MODEL_STATES = "mp_rank_MM_model_states.pt"
_EXPERT = "layer_L_expert_E_mp_rank_MM_model_states.pt"
_EXPERT_OPTIMIZER = "expp_rank_EE_mp_rank_MM_optim_states.pt"
_NO_MODEL_STATES = "zero_pp_rank_D_mp_rank_MM_model_states.pt"
_FIRST, _LAYER, _LAST = "00", "LL", "NN"
"""Numbers in the names of a pipeline's layer files: tensors before the layers, the layers, tensors after them."""


class DeepSpeed(CheckpointFormat):
    """DeepSpeed's format, in which data rank j is expert rank j mod E in replica floor(j / E) of the experts.

    Without ZeRO, the file of a model-parallel rank holds the optimizer of data rank 0 with that of its experts, or in a
    bf16 pipeline its share. In a stage with experts, each expert rank writes the whole optimizer once more. Stages with
    experts write no files of layers. Source: DeepSpeed 0.19, runtime/engine.py, _common_checkpoint_state,
    _save_moe_checkpoint.
    """

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the writers: every data rank its optimizer shard, or without ZeRO the first replica all of it."""
        is_sharded = zero_shards_optimizer(plan.precision, plan.parallelism)
        for holder in plan.holders:
            yield from _with_zero(plan, holder) if is_sharded else _without_zero(plan, holder)

    def rank_share(self, saving: SavingRank) -> RankShare:
        """A rank writes all that it holds; its shards of the optimizer are flat."""
        return RankShare(rank_shards(saving.writer.span, saving.parallelism, saving.inner))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Files are named by tensor, data, expert and model-parallel rank, layer (MoE layers from 0) and expert."""
        span = saving.writer.span
        past_ends = 1 + span.layers.start + saving.layers_before
        experts = max(1, file.count // max(1, len(span.expert_layers)))
        return {
            "TT": f"{saving.inner:02d}",
            "D": str(saving.outer),
            "EE": str(saving.outer),
            "MM": f"{saving.stage * saving.parallelism.tensor + saving.inner:02d}",
            _LAYER: f"{past_ends + number:02d}",
            _LAST: f"{past_ends + len(span.layers):02d}",
            "L": str(number // experts),
            "E": str(saving.outer % saving.parallelism.expert * experts + number % experts),
        }

    def num_files_with_optimizer(self, parallelism: Parallelism) -> int:
        """The optimizer stands in the file of the model-parallel rank, and in one for each expert rank or its share."""
        return 1 + parallelism.expert

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        return copies_in_a_replica(group, parallelism)

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Where ZeRO shards the weights, the optimizer's shards alone carry what is trained."""
        return zero_stage_of(parallelism) < ZERO_STAGE_OF_WEIGHTS

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """The ranks that share it read what ZeRO shards; each replica reads the rest."""
        first_stage = ZERO_STAGE_OF_WEIGHTS if part in WEIGHTS else ZERO_STAGE_OF_OPTIMIZER
        shared = sharding.weights if part in WEIGHTS else sharding.optimizer
        is_sharded = zero_stage_of(parallelism) >= first_stage or shared != WHOLE
        if is_sharded:
            return each_shard_once(parallelism)
        if part in WEIGHTS or parallelism.expert == 1:
            return every_replica(parallelism.replicas)
        # Each of N data ranks reads the optimizer in the file of its model-parallel rank, and in that of its expert
        # rank. That is twice what it holds, of which the files have 1 + E copies: each is read 2 N/(1 + E) times.
        copies = 2 * parallelism.num_replicas / (1 + parallelism.expert)
        return replace(every_replica(Copies(copies, copies)), times=2)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Return the tensor degrees. The files can only be read into the layout that wrote them."""
        return Ranks(parallelism.tensor, parallelism.expert_tensor_degree)


def _with_zero(plan: Plan, holder: HolderClass) -> Iterator[WriterClass]:
    p = plan.parallelism
    shards_weights = zero_stage_of(p) >= ZERO_STAGE_OF_WEIGHTS
    sharded_parts = (*WEIGHTS, *OPTIMIZER) if shards_weights else OPTIMIZER
    dense, expert = holder.dense.of(sharded_parts), holder.expert.of(sharded_parts)
    shared = (dense, p.num_replicas, 1), (expert, p.num_expert_replicas, p.expert)
    for first, past in runs(p.num_replicas, *shared, extra=(1, p.expert)):
        dense_share = shares(dense, p.num_replicas, first)
        expert_share = shares(expert, p.num_expert_replicas, first // p.expert)
        of_frozen, shard = _sharded_files(plan, dense_share, expert_share)
        others = (of_frozen,) if shards_weights else tuple(_weights(plan, holder, first))
        repeated = _repeat_share(plan, holder, shard, first) if zero_stage_of(p) < ZERO_STAGE_OF_OPTIMIZER else ()
        files = (*_join_files(others, repeated), shard)
        yield of_holder(plan, holder, files, data_ranks=range(first, past))


def _sharded_files(plan: Plan, dense: PartBytes, expert: PartBytes) -> tuple[File, File]:
    """Return a rank's file beside its shard of the optimizer, and the file with that shard.

    The first has fragments of frozen weights, which ZeRO 3 keeps outside the optimizer; otherwise it is empty. Source:
    DeepSpeed 0.19, runtime/engine.py, _get_zero_frozen_param_attributes.
    """
    in_shard = {part.name for part in plan.parts if part.is_kept_of_trained}
    of_bf16_optimizer = "bf16_" if plan.precision == "bf16-mixed" else ""
    name = f"{of_bf16_optimizer}zero_pp_rank_D_mp_rank_MM_optim_states.pt"
    fragments = flat_file(_NO_MODEL_STATES, _without(in_shard, dense), _without(in_shard, expert), plan.parts)
    others = fragments.dense.keys() | fragments.expert.keys()
    return fragments, flat_file(name, _without(others, dense), _without(others, expert), plan.parts)


def _without(names: Collection[PartName], part_bytes: PartBytes) -> PartBytes:
    return {name: num_bytes for name, num_bytes in part_bytes.items() if name not in names}


def _repeat_share(plan: Plan, holder: HolderClass, shard: File, data_rank: int) -> Iterator[File]:
    """List the files that repeat a share without ZeRO: of data rank 0 beside the weights, of each expert rank one."""
    repeated = replace(shard, holds="assigned", repeats_dense=OPTIMIZER, repeats_expert=OPTIMIZER)
    if data_rank == 0:
        yield replace(repeated, name=_MODEL_STATES)
    if data_rank < plan.parallelism.expert and holder.expert.parameters:
        yield replace(repeated, name=_EXPERT_OPTIMIZER)


def _without_zero(plan: Plan, holder: HolderClass) -> Iterator[WriterClass]:
    """List the first data rank, and in stages with experts the first replica of each expert."""
    num_writers = plan.parallelism.expert if holder.expert.parameters else 1
    for first, past in runs(num_writers, extra=(1,)):
        files = _join_files(_weights(plan, holder, first), _whole_optimizer(plan, holder, first))
        yield of_holder(plan, holder, tuple(files), data_ranks=range(first, past))


def _whole_optimizer(plan: Plan, holder: HolderClass, data_rank: int) -> Iterator[File]:
    """List files with the whole optimizer: beside the weights, and one of each expert rank."""
    dense, expert = rank_shards(holder.span, plan.parallelism, holder.tensor_ranks.start)
    whole = _file(plan, _MODEL_STATES, OPTIMIZER, (dense, expert))
    if data_rank == 0:
        yield replace(whole, repeats_expert=OPTIMIZER)
    if holder.expert.parameters:
        yield replace(whole, name=_EXPERT_OPTIMIZER, repeats_dense=OPTIMIZER)


def _join_files(files: Iterable[File], more: Iterable[File]) -> Iterator[File]:
    """List the files and more files; two of one name are one file."""
    by_name = {file.name: file for file in more}
    for file in files:
        other = by_name.pop(file.name, None)
        if other is None:
            yield file
        else:
            yield replace(
                other,
                dense=file.dense | other.dense,
                expert=file.expert | other.expert,
                num_tensors=file.num_tensors + other.num_tensors,
                assigned=file.assigned + other.assigned,
            )
    yield from by_name.values()


def _weights(plan: Plan, holder: HolderClass, data_rank: int) -> Iterator[File]:
    """List the weights' files of a data rank: dense ones from rank 0, experts' from their first replica."""
    if data_rank == 0:
        yield from _dense_weights(plan, holder)
    if data_rank < plan.parallelism.expert and holder.expert.parameters:
        num_files = len(holder.span.expert_layers) * plan.experts_per_rank
        yield File(_EXPERT, {}, holder.expert.of(WEIGHTS), holder.expert.num_tensors(WEIGHTS), num_files)


def _dense_weights(plan: Plan, holder: HolderClass) -> Iterator[File]:
    """List the files of dense weights: one, and in a pipeline without experts one more for each entry of the layers."""
    holdings = holder.span.holdings
    if plan.parallelism.pipeline == 1 or holder.expert.parameters:
        yield _weights_file(plan, holder, _MODEL_STATES, holdings)
        return
    ends = [h for h in holdings if not h.is_spread and not h.is_in_layers]
    is_first, layers = holder.span.stages.start == 0, [h for h in holdings if h.is_in_layers]
    yield _weights_file(plan, holder, _MODEL_STATES, [h for h in holdings if h.is_spread])
    if ends and is_first:
        yield _weights_file(plan, holder, _layer_name(plan, _FIRST), ends)
    if holder.span.layers:
        yield _weights_file(plan, holder, _layer_name(plan, _LAYER), layers, count=len(holder.span.layers))
    if ends and not is_first:
        yield _weights_file(plan, holder, _layer_name(plan, _LAST), ends)


def _layer_name(plan: Plan, number: str) -> str:
    """Return the name of a layer's file, with the tensor rank if there are several.

    Source: DeepSpeed 0.19, runtime/pipe/module.py, ckpt_layer_path; a PipelineModule that makes its own topology.
    """
    return f"layer_{number}{'-model_TT' if plan.parallelism.tensor > 1 else ''}-model_states.pt"


def _weights_file(plan: Plan, holder: HolderClass, name: str, holdings: Sequence[Holding], *, count: int = 1) -> File:
    """Make a file with the dense weights of some tensors of a stage."""
    span = replace(holder.span, holdings=tuple(holdings))
    dense, _ = rank_shards(span, plan.parallelism, holder.tensor_ranks.start)
    return replace(_file(plan, name, WEIGHTS, (dense, [])), count=count)


def _file(plan: Plan, name: str, names: tuple[PartName, ...], shards: Shards) -> File:
    """Make a file with some parts of dense and expert tensors, each tensor whole."""
    parts = tuple(part for part in plan.parts if part.name in names)
    dense, expert = (content_of(some, parts) for some in shards)
    num_tensors = dense.num_tensors() + expert.num_tensors()
    whole = tuple(
        AssignedTensors(kept, moment, replace(shard, count=shard.count * moment.copies))
        for shard, part in product(chain.from_iterable(shards), parts)
        if shard.parameters and (kept := part.of(is_trained=shard.is_trained)) is not None
        for moment in kept.kept
    )
    return File(name, dense.of(names), expert.of(names), num_tensors, holds="assigned", assigned=whole)


DEEPSPEED = DeepSpeed(
    name="deepspeed",
    frameworks=("deepspeed",),
    modes=("sync", "async"),
    takes=frozenset({"tensor", "pipeline", "expert", "zero_stage"}),
    files="mp_rank_MM_model_states.pt and [bf16_]zero_pp_rank_D_mp_rank_MM_optim_states.pt; "
    "per layer where there is a pipeline, per expert where there are experts",
    writers="data-parallel rank 0 of each model-parallel rank the weights, every rank its optimizer shard",
    gathers="nothing",
    reshards="nothing",
    needs_distributed_optimizer=False,
    container=CONTAINERS["torch-zip"],
    planning=None,
    assumptions=(),
    source="DeepSpeed, runtime/engine.py, save_checkpoint; measured in published/framework_checkpoints.json",
)
