"""The interface of a checkpoint format, and answers that most formats share.

A format is one object in one module of this folder: its facts are fields, its rules are methods. They have no defaults,
so that a format that leaves one out does not type-check, except `saving`, `refused_degrees`, `small_files`,
`num_files_with_optimizer`, `num_cuts`, `sharding`, `host_loading`, `stored_fractions` and `stages_always`, which are
alike in most formats.
`registry.py` lists the objects; no other module knows their names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sizing.errors import InvalidInput
from sizing.frameworks.framework import OptimizerSharding
from sizing.layout.containers import METADATA, OF_DCP, WITH_PLANS, ContainerOverhead, Metadata
from sizing.layout.files import OPTIMIZER, WEIGHTS, File, FileTotals, Plan, SavingRank, WriterClass
from sizing.layout.fsdp_shards import FsdpMesh
from sizing.layout.holders import Shards
from sizing.layout.parallelism import Parallelism, Ranks
from sizing.layout.sharding import Sharding, sharding_of
from sizing.layout.stages import Holding
from sizing.model import TensorGroup
from sizing.provenance import Assumption
from sizing.ranges import plausible_range
from sizing.state.optimizers import BYTES_PER_VALUE
from sizing.state.saved_state import PartName, StatePart, is_plain
from sizing.state.training import FrameworkName, Training

ReadersName = Literal["every-replica", "each-shard-once", "every-shard-copy", "writers", "rank-0"]
ReadingRanks = Literal["everyone", "writers", "rank-0"]


class Copies(NamedTuple):
    """Mean number of ranks that read each byte of the files, of dense tensors and of routed experts."""

    dense: float = 1.0
    expert: float = 1.0


@dataclass(frozen=True, slots=True)
class Readers:
    """Ranks that read a part back.

    `copies`: the number of ranks that read each byte of the files. `sharers`: the number of ranks that divide the
    reading of one model-parallel rank's content. `times`: how many times a rank reads its share of it, from files that
    repeat it.
    """

    name: ReadersName
    ranks: ReadingRanks
    copies: Ranks | Copies
    sharers: Ranks
    times: int = 1


def every_replica(copies: Ranks | Copies) -> Readers:
    """Return readers that all read what they hold; `copies` ranks hold the same."""
    return Readers("every-replica", "everyone", copies, Ranks())


def each_shard_once(parallelism: Parallelism) -> Readers:
    """Return readers that each read their own share of what replicas divide."""
    return Readers("each-shard-once", "everyone", Ranks(), parallelism.replicas)


def every_shard_copy(parallelism: Parallelism) -> Readers:
    """Return FSDP ranks that each read their shard; each shard group has a copy."""
    mesh = FsdpMesh.of(parallelism)
    copies, sharers = Ranks(mesh.copies, mesh.copies), Ranks(mesh.shards, mesh.expert_shards)
    return Readers("every-shard-copy", "everyone", copies, sharers)


OWN = Readers("each-shard-once", "everyone", Ranks(), Ranks())
"""Readers that each read what is their own."""

WRITERS = Readers("writers", "writers", Ranks(), Ranks())
"""Readers that wrote the part: they read it and scatter it."""

RANK_0 = Readers("rank-0", "rank-0", Ranks(), Ranks())
"""Rank 0 as the only reader: it reads the part and scatters it."""


_RANGE = plausible_range("storage.profile.planning_seconds_per_rank")
_EVERY_TENSOR_SECONDS_PER_RANK = 90 / 256
"""Planning time per rank. Source: pytorch/pytorch#149785. It grows with ranks: 200 s on 1,024 and over 600 s on 2,048,
0.2 and 0.3 s for each, for the validation alone (pytorch/pytorch#163548); 436 less 67 s on 1,856, 0.2 s for each
(PyTorch and Crusoe 2025)."""
_SHARE_SECONDS_PER_RANK = 62 / 8960
"""Planning time per rank of ByteCheckpoint's planner, which gathers plans on one rank as PyTorch's does, for a model of
405B trained by Megatron-LM. Source: arXiv 2407.20143, section 4.1, at second hand: three summaries of the paper agree
on the figures; the paper itself was not read. By one of them, a whole stall of Megatron-LM's own save took 4.70 s on
4,800 ranks (table 4), 0.001 s for each, which the range holds."""


@dataclass(frozen=True, slots=True)
class Planning:
    """Planning of a save by a format.

    `uncached_seconds_per_rank`: time that each rank adds without cached plans. `is_in_background`: asynchronous saves
    plan after the copy, while training continues; otherwise training waits. `metadata`: the content of plans in
    `.metadata`. `source`: where both were read.
    """

    uncached_seconds_per_rank: float
    is_in_background: bool
    metadata: Metadata
    source: str

    def seconds_per_rank(self, *, cached: bool | None) -> float:
        """Return the time that each rank adds, unless `storage.profile.planning_seconds_per_rank` is given.

        It is the lower end of the range with `cached` plans, the upper end without, and the midpoint if unknown.
        """
        return planned_fraction(cached=cached) * self.uncached_seconds_per_rank


def planned_fraction(*, cached: bool | None) -> float:
    """Return the planning time over that without cached plans; the midpoint if it is not known whether they are cached.

    Source: `ranges.toml`, storage.profile.planning_seconds_per_rank.

    >>> planned_fraction(cached=False), round(planned_fraction(cached=None), 3)
    (1.0, 0.508)
    """
    if cached is None:
        return _RANGE.midpoint
    low, high = _RANGE.ends(_RANGE.midpoint)
    return low if cached else high


OF_EVERY_TENSOR = Planning(
    uncached_seconds_per_rank=_EVERY_TENSOR_SECONDS_PER_RANK,
    is_in_background=True,
    metadata=OF_DCP,
    source="the plan of each rank lists every tensor: over 90 s for 256 ranks without cached plans "
    "(pytorch/pytorch#149785); torch.distributed.checkpoint.async_save copies first and plans in the background",
)
"""Planning of plain DCP of PyTorch: each rank plans its rows of every tensor."""

OF_A_SHARE = Planning(
    uncached_seconds_per_rank=_SHARE_SECONDS_PER_RANK,
    is_in_background=False,
    metadata=WITH_PLANS,
    source="the plan of each rank lists its share alone: 62 s for 8,960 ranks of Megatron-LM without cached plans "
    "(ByteCheckpoint, arXiv 2407.20143, section 4.1, at second hand); save_state_dict_async_plan gathers them on "
    "rank 0 in every save before anything is handed to the background",
)
"""Planning of Megatron's distributed checkpoint: each tensor is in the plan of one rank."""


def copies_in_a_replica(group: TensorGroup, parallelism: Parallelism) -> int:
    """Count the model-parallel ranks with a piece of a tensor: t/p for p pieces on t > p tensor ranks, else 1.

    Twice that where first and last stage both keep it.
    Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3; Narayanan et al. 2021, section 2.2 (tied
    embeddings); assumes that p divides t, which `check_fit` ensures.

    >>> norm = TensorGroup("norm", (64,), pieces=1)
    >>> copies_in_a_replica(norm, Parallelism(tensor=8, data=4, expert=2))
    8
    """
    num_ranks = parallelism.expert_tensor_degree if group.experts else parallelism.tensor
    copies = max(1, num_ranks // group.pieces)
    return 2 * copies if group.placement == "first-and-last-stage" and parallelism.pipeline > 1 else copies


@dataclass(frozen=True, slots=True)
class HostLoading:
    """Host memory that a rank takes for what it reads back.

    `tensors_at_once`: it reads tensor by tensor, and holds so many; None where it does not. `budget_bytes`: bytes in
    flight that a rank allows itself; None without a bound. `stacks_experts`: the experts of a layer are one tensor.
    `source`: where that was read, and the peak of a real load. Without either, a rank holds all that it reads.
    """

    source: str
    tensors_at_once: int | None = None
    budget_bytes: int | None = None
    stacks_experts: bool = False

    def held_bytes(self, read_bytes: float, *, largest_tensor_bytes: float) -> float:
        """Compute the host memory that a rank takes to read S bytes: S, min(S, k T) or min(S, b).

        Args: `read_bytes` S; `largest_tensor_bytes` T, of the largest tensor as it stands in a file; k is
        `tensors_at_once` and b is `budget_bytes`.
        Source: `source` of each kind. Assumes that files are read, not mapped: mapped pages belong to the page cache,
        which the kernel takes back.

        >>> TENSOR_BY_TENSOR.held_bytes(1e9, largest_tensor_bytes=6.25e7), WHOLE_FILES.held_bytes(
        ...     1e9, largest_tensor_bytes=6.25e7)
        (125000000.0, 1000000000.0)
        """
        if self.tensors_at_once is not None:
            return min(read_bytes, self.tensors_at_once * largest_tensor_bytes)
        return read_bytes if self.budget_bytes is None else min(read_bytes, self.budget_bytes)


WHOLE_FILES = HostLoading(
    source="torch.load with map_location cpu: 1.00 of the file, measured with torch 2.13; DeepSpeed 0.19.8, "
    "runtime/engine.py, _get_all_zero_checkpoint_state_dicts",
)
"""Loading of pickled files: each is in host memory as a whole before its tensors go to the GPU."""

TENSOR_BY_TENSOR = HostLoading(
    tensors_at_once=2,
    source="torch 2.13, distributed/checkpoint/filesystem.py, read_data; measured: 0.126 of a state of 16 equal "
    "tensors, which is two of them",
)
"""Loading of DCP into a state that exists: the bytes of a tensor, and the tensor made of them."""

Mode = Literal["sync", "async"]

FormatField = Literal[
    "tensor",
    "pipeline",
    "virtual_pipeline",
    "expert",
    "expert_tensor",
    "zero_stage",
    "shard_group",
    "table_sharding",
    "files_per_rank",
    "distributed_optimizer",
    "optimizer_sharding",
    "stored_fraction",
]
"""Fields of a scenario that only some formats know."""

Gathers = Literal["nothing", "optimizer", "everything", "optimizer on every rank"]
"""State that is gathered before the write: by the writers the content of their files, or by every rank the optimizer
that replicas divide.
"""

_GATHERED_PARTS: dict[Gathers, tuple[PartName, ...]] = {
    "nothing": (),
    "optimizer": OPTIMIZER,
    "everything": (*WEIGHTS, *OPTIMIZER),
    "optimizer on every rank": OPTIMIZER,
}

Reshards = Literal["everything", "replicas", "nothing"]
"""Degrees that may differ when a checkpoint is read back. `replicas`: data and context, which only change how many
ranks read the same files."""


@dataclass(frozen=True, slots=True)
class RankShare:
    """Share of a rank: share `index` of `count` equal shares of the bytes of some shards, and `more` such shares.

    `rest_to_last`: the last share takes the remaining bytes; otherwise the first shares take one byte each.
    """

    shards: Shards
    index: int = 0
    count: int = 1
    rest_to_last: bool = False
    more: tuple[RankShare, ...] = ()

    def bounds(self, num_bytes: int) -> tuple[int, int]:
        """Return the first byte of the share and the byte after its last, of `num_bytes`."""
        each, rest = divmod(num_bytes, self.count)

        def start(index: int) -> int:
            return each * index + (rest * (index == self.count) if self.rest_to_last else min(index, rest))

        return start(self.index), start(self.index + 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class CheckpointFormat(ABC):
    """Format of a checkpoint: which rank writes which bytes into which file, and which ranks read them back.

    `files`, `writers`: descriptions for the catalog. `takes`: the fields of a scenario that it knows; the others must
    keep their default. `needs_distributed_optimizer`: its optimizer files are those of a distributed optimizer only. A
    format of Megatron that takes the field `distributed_optimizer` without needing it saves either. `planning`: how all
    ranks plan for the `.metadata` that rank 0 writes and all ranks read; None if there is none. `assumptions`:
    assumptions behind its sizes that the scenario does not state. `host_loading`: host memory of a rank that reads it.
    `stored_fractions`: what its own compression leaves of values, by their bytes; nothing where it does not compress.
    `stages_always`: a rank copies its whole share to host memory before it writes, in synchronous saves too.
    """

    name: str
    frameworks: tuple[FrameworkName, ...]
    modes: tuple[Mode, ...]
    takes: frozenset[FormatField]
    files: str
    writers: str
    gathers: Gathers
    reshards: Reshards
    needs_distributed_optimizer: bool
    container: ContainerOverhead
    planning: Planning | None
    assumptions: tuple[Assumption, ...]
    source: str
    host_loading: HostLoading = WHOLE_FILES
    stored_fractions: Mapping[int, float] = field(default_factory=dict)
    stages_always: bool = False

    def stored_fraction(self, parts: tuple[StatePart, ...], totals: FileTotals) -> float:
        """Return what its own compression leaves of all bytes: the mean over the widths of values, in three digits."""
        if not self.stored_fractions:
            return 1.0
        left = total = 0.0
        for part in parts:
            width = BYTES_PER_VALUE[part.dtype] if is_plain(part.dtype) else 0
            left += self.stored_fractions.get(width, 1.0) * totals.bytes_of(part.name)
            total += totals.bytes_of(part.name)
        return float(f"{left / total:.3g}") if total else 1.0

    def gathered_parts(self, sharding: Sharding) -> tuple[PartName, ...]:
        """Return the parts that are gathered from other ranks in host memory before the write."""
        return _GATHERED_PARTS[self.gathers]

    @property
    def gathers_on_every_rank(self) -> bool:
        """Whether each rank gathers all parts that it holds with its replicas, whatever it writes."""
        return self.gathers == "optimizer on every rank"

    @property
    def is_by_rank_0(self) -> bool:
        """Whether one process makes and writes all files, however many ranks there are."""
        return False

    @property
    def assigns_shards(self) -> bool:
        """Whether the format assigns whole shards to ranks one by one, which a `Plan` may leave open."""
        return False

    @property
    def walks_ranks(self) -> bool:
        """Whether files are computed over all ranks of a stage; most formats need one rank of each kind."""
        return self.assigns_shards

    def saving(self, sharding: OptimizerSharding | None) -> CheckpointFormat:
        """Return the variant of the format for this form of a distributed optimizer; most formats have no variants."""
        return self

    def refused_degrees(self, parallelism: Parallelism) -> InvalidInput | None:
        """Return the error for degrees that fit the model but not the files; None in most formats."""
        return None

    def small_files(self, *, files_per_rank: int) -> tuple[str, ...]:
        """Return the names of the files without tensors that rank 0 writes; only `.metadata` in most formats."""
        return (METADATA,) if self.planning else ()

    def num_files_with_optimizer(self, parallelism: Parallelism) -> int:
        """Count the files that have a model-parallel rank's optimizer, 1 in most formats."""
        return 1

    def sharding(self, training: Training, parallelism: Parallelism) -> Sharding:
        """Return how replicas divide the state in memory: the framework's way, unless the format requires another."""
        return sharding_of(training, parallelism)

    @abstractmethod
    def writer_classes(self, plan: Plan) -> Iterator[WriterClass]:
        """List the ranks that write at least one file, with their files."""

    @abstractmethod
    def rank_share(self, saving: SavingRank) -> RankShare:
        """Return the tensors that a rank's files hold, or the share of their bytes."""

    @abstractmethod
    def name_parts(self, file: File, number: int, saving: SavingRank) -> dict[str, str]:
        """Return the value of each run of capitals in the name of a rank's file `number` of this pattern."""

    @abstractmethod
    def num_copies(self, group: TensorGroup, part: PartName, parallelism: Parallelism) -> int:
        """Count how many times the files hold a part of a tensor."""

    @abstractmethod
    def has_weights_beside_master(self, parallelism: Parallelism) -> bool:
        """Return whether low-precision weights are saved in addition to the master copy."""

    @abstractmethod
    def readers(self, part: PartName, parallelism: Parallelism, sharding: Sharding) -> Readers:
        """Return the ranks that read a part back, if each replica reads what it needs and the state is sharded so."""

    @abstractmethod
    def num_shards(self, parallelism: Parallelism) -> Ranks:
        """Return into how many shards the files cut a tensor; a shard is always read whole."""

    def num_cuts(self, holding: Holding, parallelism: Parallelism) -> tuple[int, ...]:
        """Return the number of equal runs into which shards cut each dimension of a tensor; in most formats one."""
        shards = self.num_shards(parallelism)
        return (shards.expert if holding.experts else shards.dense,)
