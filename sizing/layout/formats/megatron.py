"""Megatron's own formats: a file of each model-parallel rank, with or without the optimizer gathered beside it."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.layout.cells import rank_shards
from sizing.layout.containers import CONTAINERS
from sizing.layout.files import OPTIMIZER, WEIGHTS, File, Plan, WriterClass, flat_file, of_cell
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.readers import WRITERS, Readers, every_replica
from sizing.layout.formats.tensor_copies import copies_in_a_replica
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Sharding
from sizing.model import TensorGroup
from sizing.state.saved_state import PartName


class Megatron(CheckpointFormat):
    """Every model-parallel rank of the first replica writes all that it holds; with experts, every expert rank."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """One file per rank."""
        name = f"{_folder(plan)}/model_optim_rng.pt"
        for cell in plan.cells:
            num_tensors = cell.dense.num_tensors() + cell.expert.num_tensors()
            file = File(name, cell.dense.part_bytes, cell.expert.part_bytes, num_tensors)
            yield of_cell(plan, cell, (file,), data_ranks=range(plan.parallelism.expert))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """All that the rank holds."""
        return RankShare(rank_shards(saving.writer.span, saving.parallelism, saving.inner))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Tensor, pipeline and expert rank."""
        return {"TT": f"{saving.inner:02d}", "PPP": f"{saving.stage:03d}", "EEE": f"{saving.outer:03d}"}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One for each model-parallel rank that holds it; dense tensors stand in the file of each expert rank."""
        return copies_in_a_replica(group, parallelism) * (1 if group.experts else parallelism.expert)

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Both are saved."""
        return True

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Each expert rank reads its own file, with the dense tensors in it."""
        return every_replica(Ranks(parallelism.num_expert_replicas, parallelism.num_expert_replicas))

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are cut by the tensor degree."""
        return Ranks(parallelism.tensor, parallelism.expert_tensor_degree)


class MegatronDistributedOptimizer(Megatron):
    """The same with the optimizer, which replicas share, gathered into a file of its own."""

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """The optimizer of the dense tensors is gathered to expert rank 0 alone, their weights stand in each file."""
        weights_name, optimizer_name = (f"{_folder(plan)}/{f}.pt" for f in ("model_optim_rng", "distrib_optim"))
        for cell in plan.cells:
            num_weights = cell.dense.num_tensors(WEIGHTS) + cell.expert.num_tensors(WEIGHTS)
            weights = File(weights_name, cell.dense.of(WEIGHTS), cell.expert.of(WEIGHTS), num_weights)
            expert = cell.expert.of(OPTIMIZER)
            first = flat_file(optimizer_name, cell.dense.of(OPTIMIZER), expert, plan.parts)
            yield of_cell(plan, cell, (weights, first), data_ranks=range(1))
            if plan.parallelism.expert > 1:
                others = flat_file(optimizer_name, {}, expert, plan.parts)
                yield of_cell(plan, cell, (weights, others), data_ranks=range(1, plan.parallelism.expert))

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """As in the classic format; of the optimizer one for all expert ranks."""
        if part in WEIGHTS:
            return super().num_copies(group, part, parallelism)
        return copies_in_a_replica(group, parallelism)

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Weights as in the classic format; the optimizer by those who gathered it."""
        return super().readers(part, parallelism, sharding) if part in WEIGHTS else WRITERS


def _folder(plan: Plan) -> str:
    pipeline = "_PPP" if plan.parallelism.pipeline > 1 else ""
    expert = "_EEE" if plan.parallelism.expert > 1 else ""
    return f"mp_rank_TT{pipeline}{expert}"


MEGATRON = Megatron(
    name="megatron",
    frameworks=("megatron",),
    modes=("sync",),
    takes=frozenset({"tensor", "pipeline", "virtual_pipeline", "expert"}),
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
    takes=frozenset({"tensor", "pipeline", "virtual_pipeline", "expert", "distributed_optimizer"}),
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
