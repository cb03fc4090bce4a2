"""What a checkpoint format answers.

A format is one object in one module of this folder: its facts are fields, its rules are methods. Neither has a default,
so a format that leaves one out does not type-check; `saving`, `refused_degrees`, `num_files_with_optimizer` and
`sharding` are alike in most.
`registry.py` lists the objects; no other module knows their names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sizing.errors import InvalidInput
from sizing.layout.cells import Shards
from sizing.layout.containers import Container
from sizing.layout.files import OPTIMIZER, WEIGHTS, File, Plan, WriterClass
from sizing.layout.formats.planning import Planning
from sizing.layout.formats.readers import Readers
from sizing.layout.optimizer_sharding import OptimizerSharding
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.saving_ranks import SavingRank
from sizing.layout.sharding import Sharding, sharding_of
from sizing.model import TensorGroup
from sizing.provenance import Assumption
from sizing.state.saved_state import PartName
from sizing.state.training import Framework, Training

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
    "optimizer_sharding",
]
"""Fields of a scenario that not every format knows."""

Gathers = Literal["nothing", "optimizer", "everything", "optimizer on every rank"]
"""What writers gather before they write: their files', or every rank the optimizer of all that replicas divide."""

_GATHERED_PARTS: dict[Gathers, tuple[PartName, ...]] = {
    "nothing": (),
    "optimizer": OPTIMIZER,
    "everything": (*WEIGHTS, *OPTIMIZER),
    "optimizer on every rank": OPTIMIZER,
}

Reshards = Literal["everything", "replicas", "nothing"]
"""Degrees that may differ when a checkpoint is read back. `replicas`: data and context, which only say how often the
same files are read."""


@dataclass(frozen=True, slots=True)
class RankShare:
    """What a rank writes: share `index` of `count` equal shares of the bytes of some shards, and `more` such shares.

    `rest_to_last`: the last share takes the bytes that do not divide; else the first ones take one each.
    """

    shards: Shards
    index: int = 0
    count: int = 1
    rest_to_last: bool = False
    more: tuple[RankShare, ...] = ()

    def bounds(self, num_bytes: int) -> tuple[int, int]:
        """Where the share begins and ends in so many bytes."""
        start, past = (self._before(num_bytes, index) for index in (self.index, self.index + 1))
        return start, past

    def _before(self, num_bytes: int, index: int) -> int:
        each, rest = divmod(num_bytes, self.count)
        given = rest * (index == self.count) if self.rest_to_last else min(index, rest)
        return each * index + given


@dataclass(frozen=True, kw_only=True, eq=False)
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
    def gathered_parts(self) -> tuple[PartName, ...]:
        """The parts that writers gather from other ranks, in their host memory, before they write them."""
        return _GATHERED_PARTS[self.gathers]

    @property
    def gathers_on_every_rank(self) -> bool:
        """Whether each rank gathers the parts of all that it holds with its replicas, whatever of it it writes."""
        return self.gathers == "optimizer on every rank"

    @property
    def deals_shards(self) -> bool:
        """Whether it deals whole shards to ranks one by one, which a `Plan` may leave open."""
        return False

    def saving(self, sharding: OptimizerSharding | None) -> CheckpointFormat:
        """The format as it saves an optimizer that is distributed so: most save all alike."""
        return self

    def refused_degrees(self, parallelism: Parallelism) -> InvalidInput | None:
        """What is wrong with degrees that go together in a model but not in the files: nothing in most formats."""
        return None

    def num_files_with_optimizer(self, parallelism: Parallelism) -> int:
        """In how many files the optimizer of a model-parallel rank stands where they repeat it: one in most formats."""
        return 1

    def sharding(self, training: Training, parallelism: Parallelism) -> Sharding:
        """How replicas divide the state in memory: the framework's choice, where it is not what the format is for."""
        return sharding_of(training, parallelism)

    @abstractmethod
    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """The ranks that write at least one file, with their files."""

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
