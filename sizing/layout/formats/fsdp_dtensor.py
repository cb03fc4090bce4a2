"""Megatron-FSDP's format: PyTorch's distributed checkpoint of the rows that each rank has of every layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, starmap
from typing import Self

import numpy as np

from sizing.layout.containers import CONTAINERS, OF_DCP
from sizing.layout.dealing import Counts, runs_of_equal
from sizing.layout.files import File, PartBytes, Plan, WriterClass
from sizing.layout.formats.base import CheckpointFormat, RankShare
from sizing.layout.formats.dealt_stage import DealtStage, Flat
from sizing.layout.formats.fsdp_units import shares_of, units_of
from sizing.layout.formats.planning import OF_A_SHARE
from sizing.layout.formats.readers import Readers, every_shard_copy
from sizing.layout.fsdp_shards import FsdpMesh
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Gathers, Sharding
from sizing.layout.stages import StageSpan, share
from sizing.model import TensorGroup
from sizing.provenance import Assumption
from sizing.state import StatePart
from sizing.state.saved_state import PartName
from sizing.state.training import Training


class FsdpDtensor(CheckpointFormat):
    """fp32 weights and moments, each once; ranks share the rows of a layer, one after the other.

    Of a frozen tensor, which has no fp32 weights, those that the model computes with are saved.
    """

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Every rank, with its share of the units that its tensor rank and its expert rank hold."""
        for span in plan.spans:
            ranks = _Ranks.of(plan, span)
            of_tensor_ranks = [ranks.runs(rank) for rank in range(plan.parallelism.tensor)]
            for runs, equal in groupby(range(len(of_tensor_ranks)), of_tensor_ranks.__getitem__):
                first, *others = equal
                tensor_ranks = range(first, first + len(others) + 1)
                for run, file in runs:
                    yield WriterClass(span, tensor_ranks, plan.parallelism.tensor, run, (file,))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """The file says what it holds."""
        return RankShare(([], []))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Rank in the world."""
        return {"RANK": str(saving.rank)}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """One."""
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Of both, the fp32 weights are saved alone: the model's state dict has them in place of the others.

        Source: as the format's, param_and_grad_buffer.py, _init_distributed_params.
        """
        return False

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Every rank its rows."""
        return every_shard_copy(parallelism)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Tensors are cut by tensor ranks and the shard group; its copies cut nothing."""
        num_ranks = parallelism.tensor * parallelism.shard_ranks
        return Ranks(num_ranks, num_ranks)

    def sharding(self, training: Training, parallelism: Parallelism) -> Sharding:
        """Weights, gradients and optimizer, as Megatron-FSDP divides them with `optim_grads_params`."""
        mesh = FsdpMesh.of(parallelism)
        ranks = Ranks(mesh.shards, mesh.expert_shards)
        gathers: Gathers = "layers" if max(ranks) > 1 else "nothing"
        return Sharding(ranks, ranks, ranks, shard_group=mesh.shards, gathers=gathers)


@dataclass(frozen=True, slots=True)
class _Content:
    """What each replica of a tensor rank saves of dense tensors or of experts.

    `trained` and `frozen` values, `tensors` and pieces of them, of all statistics; `evenly` are the bytes of parts
    whose tensors have bytes of their own, which replicas share evenly.
    """

    trained: Counts
    frozen: Counts
    tensors: Counts
    copies: int
    evenly: PartBytes

    def part_bytes(self, parts: tuple[StatePart, ...], replica: int) -> PartBytes:
        """The bytes of each part that a replica saves; copies of a shard share it."""
        num_replicas = len(self.trained)
        copy = replica // (num_replicas // self.copies)
        trained, frozen = int(self.trained[replica]), int(self.frozen[replica])
        found = {}
        for part in parts:
            per_value = part.bytes_per_parameter
            if per_value is None:
                found[part.name] = share(self.evenly[part.name], num_replicas, replica)
            else:
                values = trained * part.is_kept_of_trained + frozen * part.is_kept_of_frozen
                found[part.name] = share(values * per_value, self.copies, copy)
        return found


def _edges(content: _Content) -> set[int]:
    """Replicas at which a rest of what is shared evenly ends, and at which copies of a shard begin."""
    num_replicas = len(content.trained)
    copies = set(range(0, num_replicas, num_replicas // content.copies))
    return copies | {num_bytes % num_replicas for num_bytes in content.evenly.values()}


@dataclass(frozen=True, slots=True)
class _Ranks:
    """The ranks that save a span, which is all of the model: Megatron-FSDP has no pipeline."""

    plan: Plan
    stage: DealtStage

    @classmethod
    def of(cls, plan: Plan, span: StageSpan) -> Self:
        """The ranks of a span."""
        odd = tuple(part for part in plan.parts if part.bytes_per_parameter is None)
        return cls(plan, DealtStage(plan, span, parts=(), flat=(), once=odd))

    def runs(self, tensor_rank: int) -> list[tuple[range, File]]:
        """Runs of replicas of a tensor rank with equal files; empty ones are left out."""
        held = self._dense(tensor_rank), self._expert(tensor_rank)
        columns = [each for content in held for each in (content.trained, content.frozen)]
        edges = set[int]().union(*map(_edges, held))
        runs = starmap(range, runs_of_equal(columns, edges))
        return [(some, file) for run in runs for some, file in self._files(held, run) if some and file.num_bytes]

    def _files(self, held: tuple[_Content, _Content], run: range) -> Iterator[tuple[range, File]]:
        """Of replicas with equal bytes, which share the number of their tensors: the first have one more."""
        dense, expert = (content.part_bytes(self.plan.parts, run.start) for content in held)
        num_tensors = sum(int(content.tensors[run.start : run.stop].sum()) // content.copies for content in held)
        each, more = divmod(num_tensors, len(run))
        for some, count in ((run[:more], each + 1), (run[more:], each)):
            yield some, File("__RANK_0.distcp", dense, expert, count, holds="dealt")

    def _dense(self, tensor_rank: int) -> _Content:
        shares = self._shares(tensor_rank, of_experts=False, num_ranks=self.plan.parallelism.shard_ranks)
        return self._content(shares, self.stage.once_dense(tensor_rank))

    def _expert(self, tensor_rank: int) -> _Content:
        """Rank t + T j of a copy holds part i mod ET of the experts of rank floor(i / ET) mod E, and shares it."""
        p = self.plan.parallelism
        num_parts, num_different = p.expert_tensor_degree, p.expert * p.expert_tensor_degree
        num_shards = p.tensor * p.shard_ranks // num_different
        by_part = [self._shares(part, of_experts=True, num_ranks=num_shards) for part in range(num_parts)]
        shares = [np.concatenate(each) for each in zip(*by_part, strict=True)]
        ranks = tensor_rank + p.tensor * np.arange(p.shard_ranks)
        which = ranks % num_parts * num_shards + ranks // num_different
        return self._content([each[which] for each in shares], self.stage.once_expert(tensor_rank))

    def _content(self, shares: list[Counts], evenly: Flat) -> _Content:
        """Of each shard in every copy."""
        p = self.plan.parallelism
        copies = p.num_replicas // p.shard_ranks
        trained, frozen, tensors = (np.tile(each, copies) for each in shares)
        return _Content(trained, frozen, tensors, copies, evenly.part_bytes)

    def _shares(self, rank: int, *, of_experts: bool, num_ranks: int) -> list[Counts]:
        """Trained and frozen values of each shard, and the tensors and pieces of all their statistics."""
        found = [np.zeros(num_ranks, np.int64) for _ in range(3)]
        for unit in units_of(self.plan.inventory, self.plan.parallelism, rank=rank, of_experts=of_experts):
            shares = shares_of(unit.parameters, num_ranks)
            kept = sum(p.num_statistics for p in self.plan.parts if p.is_kept_of(is_trained=unit.is_trained))
            found[0 if unit.is_trained else 1] += unit.count * shares.values
            found[2] += unit.count * kept * shares.pieces
        return found


FSDP_DTENSOR = FsdpDtensor(
    name="fsdp-dtensor",
    frameworks=("megatron",),
    modes=("sync", "async"),
    takes=frozenset({"tensor", "expert", "expert_tensor", "shard_group", "distributed_optimizer"}),
    files="__RANK_0.distcp per rank, .metadata on rank 0",
    writers="every rank its rows; ranks that hold the same share its writing",
    gathers="nothing",
    reshards="everything",
    needs_distributed_optimizer=True,
    container=CONTAINERS["distcp"],
    planning=replace(OF_A_SHARE, metadata=replace(OF_DCP, is_fused=True)),
    assumptions=(
        Assumption(
            field="layout.rank_classes",
            value="units of a transformer layer",
            reason="weights, gradients and optimizer are divided, as Megatron-FSDP's guide recommends "
            "(optim_grads_params), in units of its default (TransformerLayer)",
        ),
    ),
    source="Megatron-Core 0.16.1, core/distributed/fsdp: param_and_grad_buffer.py; mcore_fsdp_adapter.py, whose mesh "
    "has no pipeline; Megatron-LM, training/checkpointing.py, save_checkpoint",
)
