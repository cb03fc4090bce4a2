"""DeepSpeed's format: weights by the first data rank, the optimizer as ZeRO shards it, layers and experts apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from sizing.layout.cells import Cell, Shards, rank_shards
from sizing.layout.containers import CONTAINERS
from sizing.layout.files import (
    OPTIMIZER,
    WEIGHTS,
    DealtTensors,
    File,
    PartBytes,
    Plan,
    WriterClass,
    flat_file,
    of_cell,
    runs,
    shares,
)
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.readers import Copies, Readers, each_shard_once, every_replica
from sizing.layout.formats.tensor_copies import copies_in_a_replica
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import (
    WHOLE,
    ZERO_STAGE_OF_OPTIMIZER,
    ZERO_STAGE_OF_WEIGHTS,
    Sharding,
    zero_shards_optimizer,
    zero_stage_of,
)
from sizing.layout.shards import Shard, content_of
from sizing.layout.stages import Holding
from sizing.model import TensorGroup
from sizing.state import StatePart
from sizing.state.saved_state import PartName

_MODEL_STATES = "mp_rank_MM_model_states.pt"
_EXPERT = "layer_L_expert_E_mp_rank_MM_model_states.pt"
_EXPERT_OPTIMIZER = "expp_rank_EE_mp_rank_MM_optim_states.pt"
_NO_MODEL_STATES = "zero_pp_rank_D_mp_rank_MM_model_states.pt"
_FIRST, _LAYER, _LAST = "00", "LL", "NN"
"""Numbers in the names of a pipeline's layer files: what stands before the layers, the layers, what stands behind."""


class DeepSpeed(CheckpointFormat):
    """Data rank j is expert rank j mod E, and replica floor(j / E) of its experts.

    Without ZeRO the file of a model-parallel rank holds the optimizer of data rank 0 with that of its experts, or in a
    bf16 pipeline its share; and in a stage with experts each expert rank writes the whole optimizer once more. Stages
    with experts write no files of layers.
    Source: DeepSpeed 0.19, runtime/engine.py, _common_checkpoint_state, _save_moe_checkpoint.
    """

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Every data rank with its shard of the optimizer; without ZeRO the first replica alone, with all of it."""
        is_sharded = zero_shards_optimizer(plan.precision, plan.parallelism)
        for cell in plan.cells:
            yield from _with_zero(plan, cell) if is_sharded else _without_zero(plan, cell)

    def rank_share(self, saving: SavingRank) -> RankShare:
        """All that the rank holds; its shards of the optimizer are flat."""
        return RankShare(rank_shards(saving.writer.span, saving.parallelism, saving.inner))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Tensor, data, expert and model-parallel rank, layer and expert; those with experts count from 0."""
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
        """That of the model-parallel rank, and one for each expert rank, or for its share."""
        return 1 + parallelism.expert

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One for each model-parallel rank that holds it."""
        return copies_in_a_replica(group, parallelism)

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Not where ZeRO shards the weights: the optimizer's shards carry what is trained then."""
        return zero_stage_of(parallelism) < ZERO_STAGE_OF_WEIGHTS

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """What ZeRO shards by the ranks that share it, the rest by each replica."""
        first_stage = ZERO_STAGE_OF_WEIGHTS if part in WEIGHTS else ZERO_STAGE_OF_OPTIMIZER
        shared = sharding.weights if part in WEIGHTS else sharding.optimizer
        is_sharded = zero_stage_of(parallelism) >= first_stage or shared != WHOLE
        if is_sharded:
            return each_shard_once(parallelism)
        repeats = part not in WEIGHTS and parallelism.expert > 1
        return every_replica(_reading_twice(parallelism) if repeats else parallelism.replicas)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are cut by the tensor degree; no other layout than the one that wrote the files can read them."""
        return Ranks(parallelism.tensor, parallelism.expert_tensor_degree)


def _reading_twice(p: Parallelism) -> Copies:
    """Each of N data ranks reads the optimizer in the file of its model-parallel rank, and in that of its expert rank.

    That is twice what it holds, of which the files have 1 + E: 2 N/(1 + E) readings.
    """
    each = 2 * p.num_replicas / (1 + p.expert)
    return Copies(each, each)


def _with_zero(plan: Plan, cell: Cell) -> Iterator[WriterClass]:
    p = plan.parallelism
    shards_weights = zero_stage_of(p) >= ZERO_STAGE_OF_WEIGHTS
    sharded = (*WEIGHTS, *OPTIMIZER) if shards_weights else OPTIMIZER
    dense, expert = cell.dense.of(sharded), cell.expert.of(sharded)
    dealt = (dense, p.num_replicas, 1), (expert, p.num_expert_replicas, p.expert)
    for first, past in runs(p.num_replicas, *dealt, extra=(1, p.expert)):
        dense_share = shares(dense, p.num_replicas, first)
        expert_share = shares(expert, p.num_expert_replicas, first // p.expert)
        of_frozen, shard = _sharded_files(plan, dense_share, expert_share)
        others = (of_frozen,) if shards_weights else tuple(_weights(plan, cell, first))
        again = _again(plan, cell, shard, first) if zero_stage_of(p) < ZERO_STAGE_OF_OPTIMIZER else ()
        files = (*_joined(others, again), shard)
        yield of_cell(plan, cell, files, data_ranks=range(first, past))


def _sharded_files(plan: Plan, dense: PartBytes, expert: PartBytes) -> tuple[File, File]:
    """A rank's file beside its shard of the optimizer, and that shard.

    In the first are fragments of frozen weights, which ZeRO 3 has in no shard of the optimizer; else it is empty.
    Source: DeepSpeed 0.19, runtime/engine.py, _get_zero_frozen_param_attributes.
    """
    in_shard = {part.name for part in plan.parts if part.is_kept_of_trained}
    name = f"{_optimizer_prefix(plan)}zero_pp_rank_D_mp_rank_MM_optim_states.pt"
    fragments = flat_file(_NO_MODEL_STATES, _without(in_shard, dense), _without(in_shard, expert), plan.parts)
    others = fragments.dense.keys() | fragments.expert.keys()
    return fragments, flat_file(name, _without(others, dense), _without(others, expert), plan.parts)


def _without(names: Collection[PartName], part_bytes: PartBytes) -> PartBytes:
    return {name: num_bytes for name, num_bytes in part_bytes.items() if name not in names}


def _again(plan: Plan, cell: Cell, shard: File, data_rank: int) -> Iterator[File]:
    """Without ZeRO data rank 0 writes its share beside the weights too, each expert rank its own in one more file."""
    again = replace(shard, holds="dealt", repeats_dense=OPTIMIZER, repeats_expert=OPTIMIZER)
    if data_rank == 0:
        yield replace(again, name=_MODEL_STATES)
    if data_rank < plan.parallelism.expert and cell.expert.parameters:
        yield replace(again, name=_EXPERT_OPTIMIZER)


def _without_zero(plan: Plan, cell: Cell) -> Iterator[WriterClass]:
    """The first data rank with that of its experts, and in stages with experts the first replica of each."""
    num_writers = plan.parallelism.expert if cell.expert.parameters else 1
    for first, past in runs(num_writers, extra=(1,)):
        files = _joined(tuple(_weights(plan, cell, first)), _optimizer(plan, cell, first))
        yield of_cell(plan, cell, tuple(files), data_ranks=range(first, past))


def _optimizer(plan: Plan, cell: Cell, data_rank: int) -> Iterator[File]:
    """The whole optimizer beside the weights, and in a file of each expert rank."""
    dense, expert = rank_shards(cell.span, plan.parallelism, cell.tensor_ranks.start)
    whole = _file(plan, _MODEL_STATES, OPTIMIZER, (dense, expert))
    if data_rank == 0:
        yield replace(whole, repeats_expert=OPTIMIZER)
    if cell.expert.parameters:
        yield replace(whole, name=_EXPERT_OPTIMIZER, repeats_dense=OPTIMIZER)


def _joined(files: Iterable[File], more: Iterable[File]) -> Iterator[File]:
    """The files, with what is added to those of the same name."""
    added = {file.name: file for file in more}
    for file in files:
        yield _with(file, added.pop(file.name)) if file.name in added else file
    yield from added.values()


def _with(file: File, other: File) -> File:
    """Both in one file."""
    return replace(
        other,
        dense=file.dense | other.dense,
        expert=file.expert | other.expert,
        num_tensors=file.num_tensors + other.num_tensors,
        dealt=file.dealt + other.dealt,
    )


def _weights(plan: Plan, cell: Cell, data_rank: int) -> Iterator[File]:
    """The files with weights that a data rank writes: dense ones by rank 0, experts' by their first replica."""
    if data_rank == 0:
        yield from _dense_weights(plan, cell)
    if data_rank < plan.parallelism.expert and cell.expert.parameters:
        num_files = len(cell.span.expert_layers) * plan.experts_per_rank
        yield File(_EXPERT, {}, cell.expert.of(WEIGHTS), cell.expert.num_tensors(WEIGHTS), num_files)


def _dense_weights(plan: Plan, cell: Cell) -> Iterator[File]:
    """One file; in a stage of a pipeline without experts one for each entry of its list of layers beside it."""
    holdings = cell.span.holdings
    if plan.parallelism.pipeline == 1 or cell.expert.parameters:
        yield _of_holdings(plan, cell, _MODEL_STATES, holdings)
        return
    ends = [h for h in holdings if not h.is_spread and not h.is_in_layers]
    is_first, layers = cell.span.stages.start == 0, [h for h in holdings if h.is_in_layers]
    yield _of_holdings(plan, cell, _MODEL_STATES, [h for h in holdings if h.is_spread])
    if ends and is_first:
        yield _of_holdings(plan, cell, _layer_name(plan, _FIRST), ends)
    if cell.span.layers:
        yield _of_holdings(plan, cell, _layer_name(plan, _LAYER), layers, count=len(cell.span.layers))
    if ends and not is_first:
        yield _of_holdings(plan, cell, _layer_name(plan, _LAST), ends)


def _layer_name(plan: Plan, number: str) -> str:
    """The name of a layer's file: the tensor rank stands in it where there are several.

    Source: DeepSpeed 0.19, runtime/pipe/module.py, ckpt_layer_path; a PipelineModule that makes its own topology.
    """
    return f"layer_{number}{'-model_TT' if plan.parallelism.tensor > 1 else ''}-model_states.pt"


def _of_holdings(plan: Plan, cell: Cell, name: str, holdings: Sequence[Holding], *, count: int = 1) -> File:
    """The dense weights of some tensors of a stage."""
    span = replace(cell.span, holdings=tuple(holdings))
    dense, _ = rank_shards(span, plan.parallelism, cell.tensor_ranks.start)
    return replace(_file(plan, name, WEIGHTS, (dense, [])), count=count)


def _file(plan: Plan, name: str, names: tuple[PartName, ...], shards: Shards) -> File:
    """Some parts of dense and of experts' tensors, whole."""
    parts = tuple(part for part in plan.parts if part.name in names)
    dense, expert = (content_of(some, parts) for some in shards)
    num_tensors = dense.num_tensors() + expert.num_tensors()
    whole = tuple(each for some in shards for shard, part in product(some, parts) for each in _whole(part, shard))
    return File(name, dense.of(names), expert.of(names), num_tensors, holds="dealt", dealt=whole)


def _whole(part: StatePart, shard: Shard) -> Iterator[DealtTensors]:
    if shard.parameters and part.is_kept_of(is_trained=shard.is_trained):
        for moment in part.kept:
            yield DealtTensors(part, moment, replace(shard, count=shard.count * moment.copies))


def _optimizer_prefix(plan: Plan) -> str:
    """What stands before the name of an optimizer file: the bf16 optimizer says so, others do not."""
    return "bf16_" if plan.precision == "bf16-mixed" else ""


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
