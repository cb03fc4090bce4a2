"""Which ranks write which files of DeepSpeed's format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sizing.layout.cells import Cell
from sizing.layout.files import FLAT_BUFFERS, OPTIMIZER, WEIGHTS, File, Plan, WriterClass, of_cell, runs, shares
from sizing.layout.formats import zero_stage_of
from sizing.state.saved_state import ZERO_STAGE_WITHOUT_WEIGHTS

_MODEL_STATES = "mp_rank_MM_model_states.pt"


def deepspeed(plan: Plan) -> Iterator[WriterClass]:
    """Rank j of the data ranks is expert rank j mod E and replica floor(j / E) of its experts."""
    p, stage = plan.parallelism, zero_stage_of("deepspeed", plan.parallelism)
    for cell in plan.cells:
        if stage == 0:
            for first, past in runs(p.expert, extra=(1,)):
                files = tuple(_deepspeed_without_zero(plan, cell, data_rank=first))
                yield of_cell(plan, cell, files, data_ranks=range(first, past))
            continue
        sharded = OPTIMIZER if stage < ZERO_STAGE_WITHOUT_WEIGHTS else (*WEIGHTS, *OPTIMIZER)
        dense, expert = cell.dense.of(sharded), cell.expert.of(sharded)
        dealt = (dense, p.num_replicas, 1), (expert, p.num_expert_replicas, p.expert)
        for first, past in runs(p.num_replicas, *dealt, extra=(1, p.expert)):
            shard = File(
                f"{plan.optimizer_prefix}zero_pp_rank_D_mp_rank_MM_optim_states.pt",
                shares(dense, p.num_replicas, first),
                shares(expert, p.num_expert_replicas, first // p.expert),
                FLAT_BUFFERS,
                holds="flat-buffers",
            )
            weights = _deepspeed_weights(plan, cell, data_rank=first, zero_stage=stage)
            yield of_cell(plan, cell, (*weights, shard), data_ranks=range(first, past))


def _deepspeed_without_zero(plan: Plan, cell: Cell, *, data_rank: int) -> Iterator[File]:
    """The optimizer stands beside the dense weights, that of the experts in a file of each expert rank."""
    dense, expert = cell.dense.of(OPTIMIZER), cell.expert.of(OPTIMIZER)
    for file in _deepspeed_weights(plan, cell, data_rank=data_rank, zero_stage=0):
        if file.name == _MODEL_STATES:
            num_tensors = file.num_tensors + cell.dense.num_tensors(OPTIMIZER)
            yield replace(file, dense=file.dense | dense, num_tensors=num_tensors)
        else:
            yield file
    if cell.expert.parameters:
        name = "expp_rank_EE_mp_rank_MM_optim_states.pt"
        yield File(name, {}, expert, cell.expert.num_tensors(OPTIMIZER))


def _deepspeed_weights(plan: Plan, cell: Cell, *, data_rank: int, zero_stage: int) -> Iterator[File]:
    """The files with weights that a data rank writes: dense ones by rank 0, experts' by their first replica."""
    if zero_stage == ZERO_STAGE_WITHOUT_WEIGHTS:
        yield File("zero_pp_rank_D_mp_rank_MM_model_states.pt", {}, {}, 0)
        return
    dense, num_weights = cell.dense.of(WEIGHTS), cell.dense.num_tensors(WEIGHTS)
    if data_rank == 0:
        if plan.parallelism.pipeline > 1 and cell.span.layers:
            yield File(_MODEL_STATES, {}, {}, 0)
            yield File("layer_LL-model_TT-model_states.pt", dense, {}, num_weights, len(cell.span.layers))
        else:
            yield File(_MODEL_STATES, dense, {}, num_weights)
    if data_rank < plan.parallelism.expert and cell.expert.parameters:
        num_files = len(cell.span.expert_layers) * plan.experts_per_rank
        weights, num_tensors = cell.expert.of(WEIGHTS), cell.expert.num_tensors(WEIGHTS)
        yield File("layer_L_expert_E_mp_rank_MM_model_states.pt", {}, weights, num_tensors, num_files)
