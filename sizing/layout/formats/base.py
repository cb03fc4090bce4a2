"""What a checkpoint format answers.

A format is one object in one module of this folder: its facts are fields, its rules are methods. Neither has a default,
so a format that leaves one out does not type-check. `registry.py` lists the objects; no other module knows their names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sizing.layout.cells import Shards
from sizing.layout.containers import Container
from sizing.layout.files import OPTIMIZER, WEIGHTS, File, Plan, WriterClass
from sizing.layout.formats.planning import Planning
from sizing.layout.formats.readers import Readers
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Sharding
from sizing.model import TensorGroup
from sizing.provenance import Assumption
from sizing.state.saved_state import PartName
from sizing.state.training import Framework

Mode = Literal["sync", "async"]

FormatField = Literal[
    "tensor",
    "pipeline",
    "virtual_pipeline",
    "expert",
    "expert_tensor",
    "zero_stage",
    "shard_group",
    "files_per_rank",
    "distributed_optimizer",
]
"""Fields of a scenario that not every format knows."""

Gathers = Literal["nothing", "optimizer", "everything"]

_GATHERED_PARTS: dict[Gathers, tuple[PartName, ...]] = {
    "nothing": (),
    "optimizer": OPTIMIZER,
    "everything": (*WEIGHTS, *OPTIMIZER),
}

Reshards = Literal["everything", "replicas", "nothing"]
"""Degrees that may differ when a checkpoint is read back. `replicas`: data and context, which only say how often the
same files are read."""


@dataclass(frozen=True, slots=True)
class RankShare:
    """What a rank writes: share `index` of `count` equal shares of the bytes of some shards."""

    shards: Shards
    index: int = 0
    count: int = 1


@dataclass(frozen=True, kw_only=True)
class CheckpointFormat(ABC):
    """Who writes which bytes of a checkpoint into which files, and who reads them back.

    `files`, `writers`: in words, for the catalog.
    `takes`: the fields of a scenario that it knows; the others must keep their default.
    `needs_distributed_optimizer`: its optimizer files are those of a distributed optimizer alone. A format of Megatron
    that takes the field `distributed_optimizer` without needing it saves either.
    `planning`: how all ranks plan for the `.metadata` that rank 0 writes and all ranks read; None where there is none.
    `assumptions`: what its sizes rest on and the scenario does not state.
    """

    name: str
    frameworks: tuple[Framework, ...]
    modes: tuple[Mode, ...]
    takes: frozenset[FormatField]
    files: str
    writers: str
    gathers: Gathers
    reshards: Reshards
    needs_distributed_optimizer: bool
    container: Container
    planning: Planning | None
    assumptions: tuple[Assumption, ...]
    source: str

    @property
    def has_metadata(self) -> bool:
        """Whether rank 0 writes a `.metadata`."""
        return self.planning is not None

    @property
    def gathered_parts(self) -> tuple[PartName, ...]:
        """The parts that writers gather from other ranks, in their host memory, before they write them."""
        return _GATHERED_PARTS[self.gathers]

    @abstractmethod
    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """The ranks that write at least one file, with their files: in a stage from its first rank on without a gap."""

    @abstractmethod
    def rank_share(self, saving: SavingRank) -> RankShare:
        """The tensors of which a rank's files hold all, or a share of the bytes."""

    @abstractmethod
    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """What each run of capitals stands for in the name of a rank's file `number` of this pattern."""

    @abstractmethod
    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """How many times a part of a tensor stands in the files."""

    @abstractmethod
    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Whether low-precision weights are saved although the master copy is, of which they are the rounding."""

    @abstractmethod
    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """The ranks that read a part back, where each replica reads what it needs, divided as `sharding` has it."""

    @abstractmethod
    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Into how many shards, each of which is read whole, the files cut a tensor."""
