"""DeepSpeed's format: weights by the first data rank, the optimizer as ZeRO shards it, layers and experts apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sizing.layout.cells import Cell, rank_shards
from sizing.layout.containers import CONTAINERS
from sizing.layout.files import OPTIMIZER, WEIGHTS, File, Plan, WriterClass, flat_file, of_cell, runs, shares
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.readers import Readers, each_shard_once, every_replica
from sizing.layout.formats.tensor_copies import copies_in_a_replica
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import ZERO_STAGE_OF_OPTIMIZER, ZERO_STAGE_OF_WEIGHTS, Sharding, zero_stage_of
from sizing.model import TensorGroup
from sizing.state.saved_state import PartName

_MODEL_STATES = "mp_rank_MM_model_states.pt"
_LAYER = "layer_LL-model_TT-model_states.pt"
_EXPERT = "layer_L_expert_E_mp_rank_MM_model_states.pt"
_EXPERT_OPTIMIZER = "expp_rank_EE_mp_rank_MM_optim_states.pt"
_NO_MODEL_STATES = "zero_pp_rank_D_mp_rank_MM_model_states.pt"


class DeepSpeed(CheckpointFormat):
    """Data rank j is expert rank j mod E, and replica floor(j / E) of its experts."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Every data rank with its shard of the optimizer; without ZeRO the first replica alone, with all of it."""
        is_sharded = zero_stage_of(plan.parallelism) >= ZERO_STAGE_OF_OPTIMIZER
        for cell in plan.cells:
            yield from _with_zero(plan, cell) if is_sharded else _without_zero(plan, cell)

    def rank_share(self, saving: SavingRank) -> RankShare:
        """All that the rank holds; its shards of the optimizer are flat."""
        return RankShare(rank_shards(saving.writer.span, saving.parallelism, saving.inner))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Tensor, data, expert and model-parallel rank, layer and expert."""
        parts = {
            "TT": f"{saving.inner:02d}",
            "D": str(saving.outer),
            "EE": str(saving.outer),
            "MM": f"{saving.stage * saving.parallelism.tensor + saving.inner:02d}",
        }
        if file.name == _LAYER:
            parts["LL"] = f"{saving.writer.span.layers.start + saving.layers_before + number:02d}"
        if file.name == _EXPERT:
            layers = saving.writer.span.expert_layers
            num_experts = file.count // len(layers)
            layer, expert = divmod(number, num_experts)
            parts["L"] = str(layers[layer] + saving.layers_before)
            parts["E"] = str(saving.outer % saving.parallelism.expert * num_experts + expert)
        return parts

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One for each model-parallel rank that holds it."""
        return copies_in_a_replica(group, parallelism)

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Not where ZeRO shards the weights: the optimizer's shards alone carry tensors then."""
        return zero_stage_of(parallelism) < ZERO_STAGE_OF_WEIGHTS

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """What ZeRO shards by the ranks that share it, the rest by each replica."""
        first_stage = ZERO_STAGE_OF_WEIGHTS if part in WEIGHTS else ZERO_STAGE_OF_OPTIMIZER
        is_sharded = zero_stage_of(parallelism) >= first_stage
        return each_shard_once(parallelism) if is_sharded else every_replica(parallelism.replicas)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are cut by the tensor degree; no other layout than the one that wrote the files can read them."""
        return Ranks(parallelism.tensor, parallelism.expert_tensor_degree)


def _with_zero(plan: Plan, cell: Cell) -> Iterator[WriterClass]:
    p = plan.parallelism
    shards_weights = zero_stage_of(p) >= ZERO_STAGE_OF_WEIGHTS
    sharded = (*WEIGHTS, *OPTIMIZER) if shards_weights else OPTIMIZER
    dense, expert = cell.dense.of(sharded), cell.expert.of(sharded)
    dealt = (dense, p.num_replicas, 1), (expert, p.num_expert_replicas, p.expert)
    for first, past in runs(p.num_replicas, *dealt, extra=(1, p.expert)):
        shard = flat_file(
            f"{_optimizer_prefix(plan)}zero_pp_rank_D_mp_rank_MM_optim_states.pt",
            shares(dense, p.num_replicas, first),
            shares(expert, p.num_expert_replicas, first // p.expert),
            plan.parts,
        )
        others = (File(_NO_MODEL_STATES, {}, {}, 0),) if shards_weights else _weights(plan, cell, data_rank=first)
        yield of_cell(plan, cell, (*others, shard), data_ranks=range(first, past))


def _without_zero(plan: Plan, cell: Cell) -> Iterator[WriterClass]:
    """The first data rank, and in stages with experts the first replica of each."""
    num_writers = plan.parallelism.expert if cell.expert.parameters else 1
    for first, past in runs(num_writers, extra=(1,)):
        files = (_with_optimizer(file, cell) for file in _weights(plan, cell, data_rank=first))
        yield of_cell(plan, cell, (*files, *_expert_optimizer(cell)), data_ranks=range(first, past))


def _with_optimizer(file: File, cell: Cell) -> File:
    """The optimizer of the dense tensors stands in the file of the model-parallel rank."""
    if file.name != _MODEL_STATES:
        return file
    num_tensors = file.num_tensors + cell.dense.num_tensors(OPTIMIZER)
    return replace(file, dense=file.dense | cell.dense.of(OPTIMIZER), num_tensors=num_tensors)


def _expert_optimizer(cell: Cell) -> Iterator[File]:
    """That of the experts stands in a file of each expert rank."""
    if cell.expert.parameters:
        yield File(_EXPERT_OPTIMIZER, {}, cell.expert.of(OPTIMIZER), cell.expert.num_tensors(OPTIMIZER))


def _weights(plan: Plan, cell: Cell, *, data_rank: int) -> Iterator[File]:
    """The files with weights that a data rank writes: dense ones by rank 0, experts' by their first replica."""
    if data_rank == 0:
        yield from _dense_weights(plan, cell)
    if data_rank < plan.parallelism.expert and cell.expert.parameters:
        num_files = len(cell.span.expert_layers) * plan.experts_per_rank
        yield File(_EXPERT, {}, cell.expert.of(WEIGHTS), cell.expert.num_tensors(WEIGHTS), num_files)


def _dense_weights(plan: Plan, cell: Cell) -> Iterator[File]:
    """One file, with a pipeline one per layer beside it."""
    dense, num_tensors = cell.dense.of(WEIGHTS), cell.dense.num_tensors(WEIGHTS)
    if plan.parallelism.pipeline > 1 and cell.span.layers:
        yield File(_MODEL_STATES, {}, {}, 0)
        yield File(_LAYER, dense, {}, num_tensors, len(cell.span.layers))
    else:
        yield File(_MODEL_STATES, dense, {}, num_tensors)


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
