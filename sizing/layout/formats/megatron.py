"""Megatron's own formats: one file of each model-parallel rank, or a second one with the gathered optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sizing.errors import InvalidInput
from sizing.layout.containers import CONTAINERS
from sizing.layout.files import OPTIMIZER, WEIGHTS, File, PartBytes, Plan, SavingRank, WriterClass, flat_file, of_holder
from sizing.layout.formats.base import WRITERS, CheckpointFormat, RankShare, Readers, copies_in_a_replica, every_replica
from sizing.layout.holders import HolderClass, rank_shards
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import Sharding
from sizing.model import TensorGroup
from sizing.state.saved_state import PartName


class Megatron(CheckpointFormat):
    """Classic format: every model-parallel rank of the first replica, or every expert rank, writes all that it holds.

    Tensor, stage and expert rank name a file: rank i = t + T j of a stage has tensor rank t and expert rank floor(i /
    ET) mod E.
    """

    def refused_degrees(self, parallelism: Parallelism) -> InvalidInput | None:
        """Refuse degrees with which ranks of different content would write one file, or a rank would find none."""
        p, of_experts = parallelism, _num_expert_ranks(parallelism)
        is_whole = of_experts % p.tensor == 0 or p.tensor % of_experts == 0
        if p.expert_tensor_degree <= p.tensor and is_whole:
            return None
        return InvalidInput.of(
            "parallelism.expert_tensor",
            f"must be at most tensor {p.tensor}, and expert x expert_tensor a multiple of tensor or a divisor of it, "
            f"with format {self.name}, whose files are named by tensor and expert rank",
            value=p.expert_tensor_degree,
            remedy="change expert_tensor or expert, or use format torch-dist",
        )

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the model-parallel ranks of the first replica, each with one file."""
        name = f"{_folder(plan)}/model_optim_rng.pt"
        for holder in plan.holders:
            num_tensors = holder.dense.num_tensors() + holder.expert.num_tensors()
            file = File(name, holder.dense.part_bytes, holder.expert.part_bytes, num_tensors)
            yield of_holder(plan, holder, (file,), data_ranks=range(_writers_of_tensor_rank(plan.parallelism)))

    def rank_share(self, saving: SavingRank) -> RankShare:
        return RankShare(rank_shards(saving.writer.span, saving.parallelism, saving.inner))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        p = saving.parallelism
        expert = (saving.inner + p.tensor * saving.outer) // p.expert_tensor_degree % p.expert
        return {"TT": f"{saving.inner:02d}", "PPP": f"{saving.stage:03d}", "EEE": f"{expert:03d}"}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """Each model-parallel rank saves all that it holds; dense tensors stand in the file of each expert rank.

        Where tensor ranks are more than expert ranks, experts stand in the files of several.
        """
        others = parallelism.tensor // _num_expert_ranks(parallelism) if group.experts else 0
        return copies_in_a_replica(group, parallelism) * max(
            1, others if group.experts else _writers_of_tensor_rank(parallelism)
        )

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Return every replica: each expert rank reads its own file, with the dense tensors in it."""
        num_files = parallelism.tensor * _writers_of_tensor_rank(parallelism)
        copies = parallelism.ranks_per_stage // num_files
        return every_replica(Ranks(copies, copies))

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        return Ranks(parallelism.tensor, parallelism.expert_tensor_degree)


class MegatronDistributedOptimizer(Megatron):
    """Classic format with the optimizer, which replicas share, gathered into a file of its own."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the writers: all write weights, the first rank that holds a part of the optimizer gathers it."""
        weights_name, optimizer_name = (f"{_folder(plan)}/{f}.pt" for f in ("model_optim_rng", "distrib_optim"))
        for holder in plan.holders:
            num_weights = holder.dense.num_tensors(WEIGHTS) + holder.expert.num_tensors(WEIGHTS)
            weights = File(weights_name, holder.dense.of(WEIGHTS), holder.expert.of(WEIGHTS), num_weights)
            dense, expert = holder.dense.of(OPTIMIZER), holder.expert.of(OPTIMIZER)
            num_with_experts = _num_expert_ranks(plan.parallelism)
            for of_ranks, experts in _split(holder, at=num_with_experts, before=expert, after={}):
                first = flat_file(optimizer_name, dense, experts, plan.parts)
                yield of_holder(plan, of_ranks, (weights, first), data_ranks=range(1))
            num_writers = _writers_of_tensor_rank(plan.parallelism)
            if num_writers > 1:
                others = flat_file(optimizer_name, {}, expert, plan.parts)
                yield of_holder(plan, holder, (weights, others), data_ranks=range(1, num_writers))

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """Weights are saved as in the classic format, the optimizer once for all expert ranks."""
        if part in WEIGHTS:
            return super().num_copies(group, part, parallelism)
        return copies_in_a_replica(group, parallelism)

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Return the classic format's readers for weights, and the writers for the optimizer."""
        return super().readers(part, parallelism, sharding) if part in WEIGHTS else WRITERS


def _num_expert_ranks(p: Parallelism) -> int:
    """Count the ranks that hold different experts: E x ET."""
    return p.expert * p.expert_tensor_degree


def _writers_of_tensor_rank(p: Parallelism) -> int:
    """Count the ranks of one tensor rank of a stage that hold different experts, at least 1."""
    return max(1, _num_expert_ranks(p) // p.tensor)


def _split(
    holder: HolderClass, *, at: int, before: PartBytes, after: PartBytes
) -> Iterator[tuple[HolderClass, PartBytes]]:
    """Split the tensor ranks of a holder at a number, each half with its bytes."""
    ranks = holder.tensor_ranks
    for some, held in (
        (range(ranks.start, min(at, ranks.stop)), before),
        (range(max(at, ranks.start), ranks.stop), after),
    ):
        if some:
            yield replace(holder, tensor_ranks=some), held


def _folder(plan: Plan) -> str:
    pipeline = "_PPP" if plan.parallelism.pipeline > 1 else ""
    expert = "_EEE" if plan.parallelism.expert > 1 else ""
    return f"mp_rank_TT{pipeline}{expert}"


MEGATRON = Megatron(
    name="megatron",
    frameworks=("megatron",),
    modes=("sync",),
    takes=frozenset({"tensor", "pipeline", "virtual_pipeline", "expert", "expert_tensor"}),
    files="mp_rank_TT[_PPP][_EEE]/model_optim_rng.pt, one per model-parallel rank",
    writers="model-parallel ranks of replica 0, with experts one per expert rank",
    gathers="nothing",
    reshards="replicas",
    needs_distributed_optimizer=False,
    container=CONTAINERS["torch-zip"],
    planning=None,
    assumptions=(),
    source="Megatron-LM, megatron/training/checkpointing.py, get_checkpoint_name, save_checkpoint",
)

MEGATRON_DISTRIBUTED_OPTIMIZER = MegatronDistributedOptimizer(
    name="megatron-distributed-optimizer",
    frameworks=("megatron",),
    modes=("sync",),
    takes=frozenset({"tensor", "pipeline", "virtual_pipeline", "expert", "expert_tensor", "distributed_optimizer"}),
    files="model_optim_rng.pt with the weights and distrib_optim.pt, per model-parallel rank",
    writers="model-parallel ranks of replica 0, with experts one per expert rank",
    gathers="optimizer",
    reshards="replicas",
    needs_distributed_optimizer=True,
    container=CONTAINERS["torch-zip"],
    planning=None,
    assumptions=(),
    source="Megatron-LM, core/optimizer/distrib_optimizer.py, save_parameter_state",
)
