"""Megatron-FSDP's format: PyTorch's distributed checkpoint of each rank's rows of every layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby, starmap
from typing import Self

import numpy as np

from sizing.frameworks.framework import GatheredUnits
from sizing.layout.assignment import Counts, runs_of_equal
from sizing.layout.containers import CONTAINERS, OF_DCP
from sizing.layout.files import File, PartBytes, Plan, SavingRank, WriterClass
from sizing.layout.formats.assigned_stage import AssignedStage, Flat
from sizing.layout.formats.base import (
    OF_A_SHARE,
    TENSOR_BY_TENSOR,
    CheckpointFormat,
    RankShare,
    Readers,
    every_shard_copy,
)
from sizing.layout.formats.fsdp_units import shares_of, units_of
from sizing.layout.fsdp_shards import FsdpMesh
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import Sharding
from sizing.layout.stages import Holding, StageSpan, share
from sizing.model import TensorGroup
from sizing.provenance import Assumption
from sizing.state import StatePart
from sizing.state.saved_state import PartName
from sizing.state.training import Training


class FsdpDtensor(CheckpointFormat):
    """Format with fp32 weights and moments, each saved once; ranks share the rows of a layer, one after the other.

    A frozen tensor has no fp32 weights: its computing weights are saved.
    """

    @property
    def walks_ranks(self) -> bool:
        """Ranks are walked to find where each share of a unit begins and ends."""
        return True

    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """Every rank writes its share of the units that its tensor rank and its expert rank hold."""
        for span in plan.spans:
            ranks = _Ranks.of(plan, span)
            of_tensor_ranks = [ranks.runs(rank) for rank in range(plan.parallelism.tensor)]
            for runs, equal in groupby(range(len(of_tensor_ranks)), of_tensor_ranks.__getitem__):
                first, *others = equal
                tensor_ranks = range(first, first + len(others) + 1)
                for run, file in runs:
                    yield WriterClass(span, tensor_ranks, plan.parallelism.tensor, run, (file,))

    def rank_share(self, saving: SavingRank) -> RankShare:
        """No shards are named here: each file says what it holds."""
        return RankShare(([], []))

    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        return {"RANK": str(saving.rank)}

    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        return 1

    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Return false: the model's state dict has the fp32 weights in place of the others.

        Source: as the format's, param_and_grad_buffer.py, _init_distributed_params.
        """
        return False

    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        return every_shard_copy(parallelism)

    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Count the ranks that cut tensors: tensor ranks x shard group. Copies cut nothing."""
        num_ranks = parallelism.tensor * parallelism.shard_ranks
        return Ranks(num_ranks, num_ranks)

    def num_cuts(self, holding: Holding, parallelism: Parallelism) -> tuple[int, ...]:
        return FsdpMesh.of(parallelism).num_cuts(holding)

    def sharding(self, training: Training, parallelism: Parallelism) -> Sharding:
        """Shard weights, gradients and optimizer, as Megatron-FSDP does with `optim_grads_params`."""
        mesh = FsdpMesh.of(parallelism)
        ranks = Ranks(mesh.shards, mesh.expert_shards)
        gathers: GatheredUnits = "layers" if max(ranks) > 1 else "nothing"
        return Sharding(ranks, ranks, ranks, shard_group=mesh.shards, gathers=gathers)


@dataclass(frozen=True, slots=True)
class _Content:
    """Dense or expert content that each replica of a tensor rank saves.

    `trained` and `frozen` count values, `tensors` the tensors and pieces of all statistics. `evenly` has the bytes of
    parts whose bytes depend on the tensor, which replicas share evenly.
    """

    trained: Counts
    frozen: Counts
    tensors: Counts
    copies: int
    evenly: PartBytes

    def part_bytes(self, parts: tuple[StatePart, ...], replica: int) -> PartBytes:
        """Count the bytes of each part that a replica saves; copies of a shard share it."""
        num_replicas = len(self.trained)
        copy = replica // (num_replicas // self.copies)
        trained, frozen = int(self.trained[replica]), int(self.frozen[replica])
        by_part = {}
        for part in parts:
            per_value = part.bytes_per_parameter
            if per_value is None:
                by_part[part.name] = share(self.evenly[part.name], num_replicas, replica)
            else:
                values = trained * part.is_kept_of_trained + frozen * part.is_kept_of_frozen
                by_part[part.name] = share(values * per_value, self.copies, copy)
        return by_part

    def edges(self) -> set[int]:
        """Return the replicas at which a remainder of evenly shared bytes ends, or copies of a shard begin."""
        num_replicas = len(self.trained)
        copies = set(range(0, num_replicas, num_replicas // self.copies))
        return copies | {num_bytes % num_replicas for num_bytes in self.evenly.values()}


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Ranks that save a span, which is the whole model: Megatron-FSDP has no pipeline."""

    plan: Plan
    stage: AssignedStage

    @classmethod
    def of(cls, plan: Plan, span: StageSpan) -> Self:
        """Build the ranks of a span, with a stage of what has no bytes per parameter."""
        odd = tuple(part for part in plan.parts if part.bytes_per_parameter is None)
        return cls(plan, AssignedStage(plan, span, parts=(), flat=(), once=odd))

    def runs(self, tensor_rank: int) -> list[tuple[range, File]]:
        """Return runs of a tensor rank's replicas with equal files, without empty files."""
        shares = self._shares(tensor_rank, of_experts=False, num_ranks=self.plan.parallelism.shard_ranks)
        contents = self._content(shares, self.stage.once_dense(tensor_rank)), self._expert_content(tensor_rank)
        columns = [each for content in contents for each in (content.trained, content.frozen)]
        edges = set[int]().union(*(content.edges() for content in contents))
        runs = []
        for run in starmap(range, runs_of_equal(columns, edges)):
            dense, expert = (content.part_bytes(self.plan.parts, run.start) for content in contents)
            num_tensors = sum(int(each.tensors[run.start : run.stop].sum()) // each.copies for each in contents)
            each, more = divmod(num_tensors, len(run))  # the first replicas of a run have one tensor more
            for some, count in ((run[:more], each + 1), (run[more:], each)):
                file = File("__RANK_0.distcp", dense, expert, count, holds="assigned")
                if some and file.num_bytes:
                    runs.append((some, file))
        return runs

    def _expert_content(self, tensor_rank: int) -> _Content:
        """Return the experts of rank t + T j = i of a copy: its share of part i mod ET of rank floor(i / ET) mod E."""
        p = self.plan.parallelism
        num_parts, num_different = p.expert_tensor_degree, p.expert * p.expert_tensor_degree
        num_shards = p.tensor * p.shard_ranks // num_different
        by_part = [self._shares(part, of_experts=True, num_ranks=num_shards) for part in range(num_parts)]
        shares = [np.concatenate(each) for each in zip(*by_part, strict=True)]
        ranks = tensor_rank + p.tensor * np.arange(p.shard_ranks)
        which = ranks % num_parts * num_shards + ranks // num_different
        return self._content([each[which] for each in shares], self.stage.once_expert(tensor_rank))

    def _content(self, shares: list[Counts], evenly: Flat) -> _Content:
        """Repeat the shares of a copy for every copy."""
        p = self.plan.parallelism
        copies = p.num_replicas // p.shard_ranks
        trained, frozen, tensors = (np.tile(each, copies) for each in shares)
        return _Content(trained, frozen, tensors, copies, evenly.part_bytes)

    def _shares(self, rank: int, *, of_experts: bool, num_ranks: int) -> list[Counts]:
        """Count trained and frozen values of each shard, and the tensors and pieces of all their statistics."""
        trained, frozen, tensors = (np.zeros(num_ranks, np.int64) for _ in range(3))
        for unit in units_of(self.plan.inventory, self.plan.parallelism, rank=rank, of_experts=of_experts):
            shares = shares_of(unit.parameters, num_ranks)
            kept = sum(p.num_statistics for p in self.plan.parts if p.is_kept_of(is_trained=unit.is_trained))
            values = trained if unit.is_trained else frozen
            values += unit.count * shares.values
            tensors += unit.count * kept * shares.pieces
        return [trained, frozen, tensors]


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
    host_loading=TENSOR_BY_TENSOR,
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
