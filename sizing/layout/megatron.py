"""Which ranks write which files of Megatron's formats."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.layout.cells import unique_content
from sizing.layout.files import FLAT_BUFFERS, OPTIMIZER, WEIGHTS, File, Plan, WriterClass, of_cell, runs, shares


def megatron(plan: Plan) -> Iterator[WriterClass]:
    """Every model-parallel rank of the first replica writes all that it holds."""
    name = f"{_mp_rank(plan)}/model_optim_rng.pt"
    for cell in plan.cells:
        num_tensors = cell.dense.num_tensors() + cell.expert.num_tensors()
        file = File(name, cell.dense.part_bytes, cell.expert.part_bytes, num_tensors)
        yield of_cell(plan, cell, (file,), data_ranks=range(plan.parallelism.expert))


def megatron_distributed_optimizer(plan: Plan) -> Iterator[WriterClass]:
    """The optimizer of the dense tensors is gathered to expert rank 0 alone, their weights stand in each file."""
    weights_name, optimizer_name = (f"{_mp_rank(plan)}/{f}.pt" for f in ("model_optim_rng", "distrib_optim"))
    for cell in plan.cells:
        num_weights = cell.dense.num_tensors(WEIGHTS) + cell.expert.num_tensors(WEIGHTS)
        weights = File(weights_name, cell.dense.of(WEIGHTS), cell.expert.of(WEIGHTS), num_weights)
        expert = cell.expert.of(OPTIMIZER)
        first = File(optimizer_name, cell.dense.of(OPTIMIZER), expert, FLAT_BUFFERS, holds="flat-buffers")
        yield of_cell(plan, cell, (weights, first), data_ranks=range(1))
        if plan.parallelism.expert > 1:
            others = File(optimizer_name, {}, expert, FLAT_BUFFERS, holds="flat-buffers")
            yield of_cell(plan, cell, (weights, others), data_ranks=range(1, plan.parallelism.expert))


def torch_dist(plan: Plan) -> Iterator[WriterClass]:
    """Every rank of a stage writes an equal share of what the stage holds, each tensor once."""
    ranks = plan.parallelism.ranks_per_stage
    for span in plan.spans:
        dense, expert = unique_content(span, plan.parallelism, plan.parts)
        for first, past in runs(ranks, (dense.part_bytes, ranks, 1), (expert.part_bytes, ranks, 1)):
            file = File(
                "__RANK_N.distcp",
                shares(dense.part_bytes, ranks, first),
                shares(expert.part_bytes, ranks, first),
                -(-(dense.num_tensors() + expert.num_tensors()) // ranks),
                plan.files_per_rank,
                holds="share",
            )
            yield WriterClass(span, range(first, past), ranks, range(1), (file,))


def _mp_rank(plan: Plan) -> str:
    pipeline = "_PPP" if plan.parallelism.pipeline > 1 else ""
    expert = "_EEE" if plan.parallelism.expert > 1 else ""
    return f"mp_rank_TT{pipeline}{expert}"
