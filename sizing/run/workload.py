"""What one layout asks of any storage: the workload of its saves and restores, which all later steps start from.

The workload knows no rate: bytes, files, writers and nodes of a save, and for each way to restore the plan of who reads
what. So a sweep over storage, failures and targets derives it once for each layout, and `stack_workloads` makes one of
many, with arrays for numbers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from sizing.cluster import NodeSpec, ResolvedNode
from sizing.layout import CheckpointLayout, Parallelism
from sizing.layout.containers import METADATA
from sizing.layout.files import WEIGHTS, WriterClass
from sizing.layout.placement import num_nodes_of_copies
from sizing.layout.sharding import WHOLE, Sharding
from sizing.provenance import Assumption
from sizing.ranges import plausible_range
from sizing.run.read_plan import RESTORE_STRATEGIES, ReadPlan, RestoreStrategy, amplification, read_plans
from sizing.run.universal_checkpoint import Universal
from sizing.state.saved_state import RANK_PART, PartName
from sizing.storage.limits import Demand, Direction
from sizing.storage.transfer import Numbers
from sizing.units import percent_text


@dataclass(frozen=True, slots=True)
class SaveDefaults:
    """What a save is taken to be where neither the scenario nor its storage says it, in one schema version.

    `copied_fraction`: rate of a copy from a GPU to its host over the line rate of the link; `copied_source` says why.
    `plans`: planning takes the time that the format says; else none.
    `process_bytes_per_second`: what one process pickles and writes, where all is written by it; None without a limit.
    `loses_drains`: a failure ends every drain that `checkpoint.drain_survives` does not name; else drains go on through
    failures that a tier in front recovers.
    """

    copied_fraction: float
    copied_source: str
    plans: bool
    process_bytes_per_second: float | None
    loses_drains: bool


ONE_PROCESS = "storage.profile.process_write_bytes_per_second"
_COPY = plausible_range("storage.profile.device_to_host_bytes_per_second")
AS_SHIPPED = SaveDefaults(
    copied_fraction=_COPY.midpoint,
    copied_source=f"{percent_text(_COPY.midpoint)} of the line rate of a GPU's link to its host: {_COPY.source}",
    plans=True,
    process_bytes_per_second=plausible_range(ONE_PROCESS).midpoint,
    loses_drains=True,
)
"""Defaults of the schema version of today."""
BEFORE_PROCESSES = replace(AS_SHIPPED, process_bytes_per_second=None)
"""Defaults of schema versions 2 and 3: one process writes as fast as the storage."""
BEFORE_GUESSES = SaveDefaults(
    copied_fraction=1.0,
    copied_source="line rate of a GPU's link to its host; real copies are slower",
    plans=False,
    process_bytes_per_second=None,
    loses_drains=False,
)
"""Defaults of schema version 1: line rate, no planning, drains that outlive failures."""


_LAST_WITHOUT_PROCESSES = 3
"""Schema version after which one process pickles and writes at a rate of its own."""


def save_defaults(schema_version: int) -> SaveDefaults:
    """The defaults of a scenario of that version."""
    if schema_version == 1:
        return BEFORE_GUESSES
    return BEFORE_PROCESSES if schema_version <= _LAST_WITHOUT_PROCESSES else AS_SHIPPED


_WHOLE_BY = {
    "shard_group": "set parallelism.shard_group below data x context",
    "zero_stage": "set parallelism.zero_stage to 0",
    "distributed_optimizer": "set training.distributed_optimizer to false",
}
"""What leaves copies of the whole state in more nodes, where ranks divide it, by the fields that a format takes."""


@dataclass(frozen=True)
class CheckpointWorkload:
    """What one layout asks of any storage. A sweep over storage, failures and targets derives it once.

    `max_node_bytes` is what the fullest node writes of a checkpoint. `own_restore` is how the ranks that saved read
    back, once, what lies in their own nodes, and pass it on. Where saves hold less than everything, all this is the
    mean over saves: `whole` is the workload of a save of everything, `longest` that of the largest save and restore,
    and `chain` says which saves must stay. `exported_bytes` are those of `checkpoint.export`, which may be a
    `universal` checkpoint, and `publications` those to inference over the storage. `num_state_copies` of the whole
    training state lie in GPUs of different nodes, at most `node_state_bytes` of it on one; `more_copies` says how to
    have more. The line rates of one GPU's link to its host, and of a node's ports to the other nodes, are None where
    they are not published. `process_bytes_per_second` is what one process pickles and writes.

    `stack_workloads` makes a workload of arrays, which has a row for each layout.
    """

    write: Demand
    restores: dict[RestoreStrategy, ReadPlan]
    own_restore: ReadPlan
    written_bytes: int
    weights_bytes: int
    num_gpus: int
    num_nodes: int
    num_writing_nodes: int
    max_node_bytes: int
    node: NodeSpec
    gpu_link_bytes_per_second: Numbers | None
    network_bytes_per_second: Numbers | None
    process_bytes_per_second: Numbers | None = None
    defaults: SaveDefaults = AS_SHIPPED
    whole: CheckpointWorkload | None = None
    longest: CheckpointWorkload | None = None
    chain: Chain | None = None
    exported_bytes: int = 0
    universal: Universal | None = None
    publications: StoredPublications | None = None
    num_experts: int | None = None
    num_state_copies: int = 1
    more_copies: str = "raise parallelism.data"
    node_state_bytes: float = 0.0
    assumptions: tuple[Assumption, ...] = ()

    def kept_bytes(self, num_newest: Numbers) -> Numbers:
        """Max bytes of the newest saves, with those that they need."""
        return num_newest * self.written_bytes if self.chain is None else self.chain.kept_bytes(num_newest)

    def kept_copies_bytes(self, num_newest: Numbers, *, num_saves: Numbers) -> Numbers:
        """Max bytes of the newest copies, one every so many saves, with what they need."""
        if self.chain is None:
            return num_newest * self.written_bytes
        return self.chain.kept_copies_bytes(num_newest, num_saves=num_saves)

    def copied_every(self, num_saves: Numbers) -> CheckpointWorkload:
        """The workload of a copy to an object store that takes one every so many saves, with all that it needs."""
        if self.chain is None:
            return self
        num_bytes: Any = self.chain.copied_bytes(num_saves)
        num_copied = np.where(self.chain.is_of_full_saves(num_saves), 1.0, num_saves)
        write = replace(self.write, total_bytes=num_bytes, num_files=self.write.num_files * num_copied)
        return replace(self, write=write, written_bytes=num_bytes)

    @property
    def unreduced(self) -> CheckpointWorkload:
        """Workload of a save of everything."""
        return self.whole or self

    @property
    def unreduced_bytes(self) -> int:
        """Bytes of a checkpoint with everything in it."""
        return self.unreduced.written_bytes

    @property
    def copy_bytes_per_second(self) -> Numbers | None:
        """Rate at which one GPU is taken to copy to its host, where the link's line rate is published."""
        line_rate = self.gpu_link_bytes_per_second
        return None if line_rate is None else line_rate * self.defaults.copied_fraction

    def steps(self, strategy: RestoreStrategy) -> dict[Direction, Sequence[Demand]]:
        """What a save asks, and a restore with that strategy, one step after the other."""
        return {"write": [self.write], "read": self.restores[strategy].steps}

    def through(self, node_network_bytes_per_second: float | None) -> CheckpointWorkload:
        """The workload where the adapters of a node carry so much; None where nothing that is known holds them."""
        return replace(
            self,
            write=replace(self.write, node_network_bytes_per_second=node_network_bytes_per_second),
            restores={name: plan.through(node_network_bytes_per_second) for name, plan in self.restores.items()},
            own_restore=self.own_restore.through(node_network_bytes_per_second),
            whole=self.whole and self.whole.through(node_network_bytes_per_second),
            longest=self.longest and self.longest.through(node_network_bytes_per_second),
        )

    @functools.cached_property
    def past_adapters(self) -> CheckpointWorkload:
        """The workload where nothing that is known holds the adapters of a node, or it goes past them."""
        return self.through(None)

    @property
    def without_processes(self) -> CheckpointWorkload:
        """The workload where the own work of a process that writes all by itself does not limit."""
        return replace(
            self,
            write=replace(self.write, process_bytes_per_second=None),
            process_bytes_per_second=None,
            whole=self.whole and self.whole.without_processes,
            longest=self.longest and self.longest.without_processes,
        )


def workload_of(
    checkpoint_layout: CheckpointLayout,
    parallelism: Parallelism,
    *,
    node: ResolvedNode,
    restored: tuple[CheckpointLayout, Parallelism],
    defaults: SaveDefaults = AS_SHIPPED,
    cached_plans: bool | None = None,
) -> CheckpointWorkload:
    """What saving the layout on those nodes, and restoring it into the same or another one, asks of the storage."""
    layout = checkpoint_layout.on_nodes
    restores = read_plans(*restored, amplification=amplification(checkpoint_layout, parallelism, restored[1]))
    write = _write_demand(checkpoint_layout, defaults, cached_plans=cached_plans)
    size = checkpoint_layout.size
    weights: tuple[PartName, ...] = ("weights", "master")  # the master copy where the checkpoint holds no others
    weights_bytes = next((size.parts[name].total_bytes for name in weights if name in size.parts), 0)
    is_divided, takes = checkpoint_layout.sharding.optimizer.dense > 1, checkpoint_layout.saved_as.takes
    ways = [how for field, how in _WHOLE_BY.items() if is_divided and field in takes]
    workload = CheckpointWorkload(
        write=write,
        restores=restores,
        own_restore=restores[
            "parallel-read-exchange" if write.num_streams == layout.num_gpus else "read-once-broadcast"
        ],
        written_bytes=size.written_bytes,
        weights_bytes=weights_bytes * size.written_bytes // size.total_bytes,
        num_gpus=layout.num_gpus,
        num_nodes=layout.num_nodes,
        num_writing_nodes=layout.num_writing_nodes,
        max_node_bytes=layout.max_node_bytes,
        node=node.spec,
        gpu_link_bytes_per_second=node.spec.host_link_bytes_per_second,
        network_bytes_per_second=node.spec.compute_network_bytes_per_second,
        process_bytes_per_second=defaults.process_bytes_per_second,
        defaults=defaults,
        num_state_copies=num_state_copies(
            checkpoint_layout.sharding, parallelism, gpus_per_node=node.spec.gpus_per_node
        ),
        node_state_bytes=rank_state_bytes(checkpoint_layout) * node.spec.gpus_per_node,
        more_copies=" or ".join(["raise parallelism.data", *ways]),
    )
    nics = node.storage_nics
    return workload.through(nics.node_bytes_per_second) if nics else workload


def _write_demand(checkpoint_layout: CheckpointLayout, defaults: SaveDefaults, *, cached_plans: bool | None) -> Demand:
    """Every writer writes its files at once; where there is a `.metadata`, all ranks plan for it.

    Where rank 0 writes all of it, one process decides. What each of many writers does is another figure.
    """
    size, layout = checkpoint_layout.size, checkpoint_layout.on_nodes
    metadata_bytes, planning = size.small_state_bytes.get(METADATA, 0), checkpoint_layout.saved_as.planning
    planned_seconds = planning.seconds_per_rank(cached=cached_plans) if planning and defaults.plans else 0.0
    return Demand(
        size.written_bytes,
        layout.num_writers,
        layout.num_writers / layout.max_writers_per_node,
        size.num_rank_files,
        num_planned_ranks=layout.num_gpus if metadata_bytes else 0,
        copied_over_written=size.copied_over_written,
        metadata_bytes=metadata_bytes,
        planning_seconds_per_rank=planned_seconds,
        stalling_planning_fraction=0.0 if planning and planning.is_in_background else 1.0,
        largest_over_mean=layout.largest_over_mean,
        fullest_node_over_mean=checkpoint_layout.fullest_node_over_mean,
        process_bytes_per_second=defaults.process_bytes_per_second if checkpoint_layout.saved_as.is_by_rank_0 else None,
    )


def with_offload(
    workload: CheckpointWorkload, checkpoint_layout: CheckpointLayout, off_gpu: Mapping[PartName, float]
) -> CheckpointWorkload:
    """The workload where so much of each saved part lies off the GPU: the copy from it has the rest alone.

    Saves of less than everything are taken to leave out both alike.
    """
    if not any(off_gpu.values()):
        return workload
    total, largest = (
        checkpoint_layout.size.total_bytes,
        max(linked_bytes(writer, {}) for writer in checkpoint_layout.writers),
    )
    linked = [(writer.num_ranks, linked_bytes(writer, off_gpu)) for writer in checkpoint_layout.writers]
    write = replace(
        workload.write,
        linked_over_copied=sum(ranks * num_bytes for ranks, num_bytes in linked) / total,
        largest_linked_over_copied=max(num_bytes for _, num_bytes in linked) / largest,
    )
    return replace(workload, write=write)


def linked_bytes(writer: WriterClass, off_gpu: Mapping[PartName, float]) -> float:
    """Bytes that a rank of the class copies from its GPU: of each part what does not lie on the host.

    Source: definition.

    >>> from sizing.layout.files import File
    >>> from sizing.layout.stages import StageSpan
    >>> files = (File("all", {"weights": 2, "master": 4, "moments": 8}, {}, 3),)
    >>> span = StageSpan.__new__(StageSpan)
    >>> linked_bytes(WriterClass(span, range(1), 1, range(1), files), {"master": 1.0, "moments": 0.5})
    6.0
    """
    return sum(
        num_bytes * (1.0 - off_gpu.get(name, 0.0))
        for file in writer.files
        for part_bytes in (file.dense, file.expert)
        for name, num_bytes in part_bytes.items()
    )


def rank_state_bytes(checkpoint_layout: CheckpointLayout) -> float:
    """Saved state that the fullest rank holds, in bytes: weights and optimizer over the ranks that divide each.

    Files may have it more than once, and who reads them may read more. Source: definition.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized_layout import size_layout
    >>> layout = size_layout(scenario_from(REFERENCE_SCENARIO)).checkpoint_layout
    >>> round(rank_state_bytes(layout) / 1e9, 1)
    29.8
    """
    size, sharding = checkpoint_layout.size, checkpoint_layout.sharding
    held = 0.0
    for name in size.parts:
        shards = WHOLE if name == RANK_PART else sharding.weights if name in WEIGHTS else sharding.optimizer
        for content, num_ranks in zip((checkpoint_layout.max_dense, checkpoint_layout.max_expert), shards, strict=True):
            held += content.part_bytes.get(name, 0) / num_ranks
    return held * sharding.fullest_over_mean * size.written_bytes / size.total_bytes


def num_state_copies(sharding: Sharding, parallelism: Parallelism, *, gpus_per_node: int) -> int:
    """Copies of the state in different nodes: of c = replicas / shards, those that share no node.

    Each part of the state is whole on every replica, or divided over `shards` of them; the part that is divided most
    decides. The copies of one shard are as many replicas apart as there are shards, and those on one node count once.
    Source: definition; Zhao et al. 2023, arXiv 2304.11277, section 3.2.2, for hybrid sharding.

    >>> from sizing.layout.sharding import sharding_of
    >>> from sizing.state import Training
    >>> degrees, plain, divided = Parallelism(tensor=8, data=6), Training(), Training(distributed_optimizer=True)
    >>> [num_state_copies(sharding_of(each, degrees), degrees, gpus_per_node=8) for each in (plain, divided)]
    [6, 1]
    """
    dense = max(sharding.weights.dense, sharding.optimizer.dense)
    expert = max(sharding.weights.expert, sharding.optimizer.expert)
    copies = max(1, parallelism.num_replicas // dense)
    if parallelism.expert > 1:
        copies = min(copies, max(1, parallelism.num_expert_replicas // expert))
    apart = dense * parallelism.tensor
    return num_nodes_of_copies(parallelism, copies=copies, apart=apart, gpus_per_node=gpus_per_node)


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of saves: full ones, each with small ones after it.

    One of `full_every` saves is full; none where it is None. A save needs up to `num_needed` saves before it, or,
    where `needs_full_alone`, only the last full one.
    """

    full_bytes: Numbers
    small_bytes: Numbers
    full_every: int | None
    num_needed: int
    needs_full_alone: bool = False

    def first_bytes(self, num_saves: Numbers) -> Numbers:
        """Bytes of the first n saves, the first of which is full: ceil(n / k) F + (n - ceil(n / k)) D.

        Of k saves one is full, F bytes, the others D. Source: counting.

        >>> Chain(100, 10, full_every=4, num_needed=3).first_bytes(6)
        240
        """
        if self.full_every is None:
            return num_saves * self.small_bytes
        num_full = _ceil(num_saves / self.full_every)
        return num_full * self.full_bytes + (num_saves - num_full) * self.small_bytes

    def num_first_in(self, num_bytes: Numbers) -> Numbers:
        """Most of the first saves that so many bytes hold; the inverse of `first_bytes`.

        Source: counting: whole cycles of k saves, and of the rest a full save and as many small ones as it holds.

        >>> [int(Chain(100, 10, full_every=4, num_needed=3).num_first_in(room)) for room in (99, 115, 130, 230, 239)]
        [0, 2, 4, 5, 5]
        """
        room = np.maximum(0.0, num_bytes)
        if self.full_every is None:
            return np.floor(room / self.small_bytes)
        cycle = self.full_bytes + (self.full_every - 1) * self.small_bytes
        num_cycles = np.floor(room / cycle)
        rest = room - num_cycles * cycle - self.full_bytes
        num_small = np.minimum(self.full_every - 1, np.floor(rest / self.small_bytes))
        return num_cycles * self.full_every + np.where(np.greater_equal(rest, 0), 1 + num_small, 0 * rest)

    def is_of_full_saves(self, num_saves: Numbers) -> Numbers:
        """Whether a store that takes a copy every n saves has a full one for each, so that it takes no others.

        Source: definition: of k saves one is full.

        >>> [bool(Chain(100, 10, full_every=4, num_needed=3).is_of_full_saves(n)) for n in (1, 3, 4)]
        [False, False, True]
        """
        return np.greater_equal(num_saves, self.full_every or np.inf)

    def copied_bytes(self, num_saves: Numbers) -> Numbers:
        """Mean bytes of a copy every n saves: F of a full one alone, else those of all n, as a delta needs its base.

        Source: counting, `first_bytes` of k saves over k.

        >>> [float(Chain(100, 10, full_every=4, num_needed=3).copied_bytes(n)) for n in (1, 2, 8)]
        [32.5, 65.0, 100.0]
        """
        every = self.full_every or 1
        mean = self.first_bytes(every) / every
        return np.where(self.is_of_full_saves(num_saves), self.full_bytes, np.multiply(num_saves, mean))

    def kept_copies_bytes(self, num_copies: Numbers, *, num_saves: Numbers) -> Numbers:
        """Max bytes of the newest copies, one every n saves, with all that these need.

        Source: `kept_bytes` of all saves that copies bring, or of full saves alone.

        >>> [float(Chain(100, 10, full_every=4, num_needed=3).kept_copies_bytes(2, num_saves=n)) for n in (1, 2, 8)]
        [230.0, 250.0, 200.0]
        """
        all_saves = self.kept_bytes(_ceil(np.multiply(num_copies, num_saves)))
        return np.where(self.is_of_full_saves(num_saves), np.multiply(num_copies, self.full_bytes), all_saves)

    def kept_bytes(self, num_newest: Numbers, *, num_saves: Numbers | None = None) -> Numbers:
        """The max bytes of the newest saves together with those that the oldest of them needs.

        Of k saves one is full, F bytes, the others D. A save needs m < k before it, none before a full one. A window
        of n + m saves that begins with a full one holds ceil((n + m) / k) full ones, and none holds more. Where a delta
        needs the last full save alone, n saves of which ceil((n - 1) / k) are full, and one full save before them, or
        the first n + 1 saves where deltas are larger than full saves. `num_saves`: max until that save is being
        written; by default of any.
        Source: counting.

        >>> Chain(100, 10, full_every=4, num_needed=3).kept_bytes(2)  # a full save and 3 deltas, a full one in flight
        230
        >>> Chain(100, 10, full_every=16, num_needed=3).kept_bytes(2)  # experts in turn: a full save and 4 partial ones
        140
        >>> alone = Chain(100, 10, full_every=4, num_needed=1, needs_full_alone=True)
        >>> int(alone.kept_bytes(2)), [int(alone.kept_bytes(2, num_saves=n)) for n in (1, 2, 3, 4, 5)]
        (210, [100, 110, 120, 120, 210])
        """
        length = num_newest + self.num_needed
        first = self.first_bytes(length if num_saves is None else np.minimum(num_saves, length))
        if not self.needs_full_alone or self.full_every is None:
            return first
        inside = _ceil((num_newest - 1) / self.full_every)
        later = (inside + 1) * self.full_bytes + (num_newest - inside) * self.small_bytes
        if num_saves is not None:
            next_full = (np.floor(num_newest / self.full_every) + 1) * self.full_every + 1
            later = np.where(np.greater_equal(num_saves, next_full), later, 0)
        return np.maximum(first, later)

    def num_kept_in(self, num_bytes: Numbers) -> Numbers:
        """Most newest saves that so many bytes hold, with those that they need; the inverse of `kept_bytes`.

        Source: counting, as there.

        >>> [int(Chain(100, 10, full_every=4, num_needed=3).num_kept_in(room)) for room in (129, 130, 229, 230)]
        [0, 1, 1, 2]
        """
        first = np.maximum(0.0, self.num_first_in(num_bytes) - self.num_needed)
        if not self.needs_full_alone:
            return first
        beside = np.subtract(num_bytes, self.full_bytes + self.small_bytes)
        return np.minimum(first, np.where(np.greater_equal(beside, 0), 1 + self.num_first_in(beside), 0.0 * beside))


def _ceil(value: Numbers) -> Numbers:
    return int(np.ceil(value)) if np.ndim(value) == 0 else np.ceil(value)


@dataclass(frozen=True, slots=True)
class StoredPublications:
    """Publications of weights over the storage: what one of them writes, and what all engines read of it."""

    interval_seconds: Numbers
    written_bytes: Numbers
    written_files: Numbers
    read_bytes: Numbers
    read_files: Numbers


_UNPUBLISHED = StoredPublications(np.inf, 0, 0, 0, 0)
"""Rows without publications, beside others with some."""
_NOTHING = Demand(0, 1, 1.0, 0)
"""A step of a restore that takes no time, for rows with fewer steps than others."""
_COUNTS = (
    "written_bytes",
    "weights_bytes",
    "num_gpus",
    "num_nodes",
    "num_writing_nodes",
    "max_node_bytes",
    "exported_bytes",
    "num_state_copies",
    "node_state_bytes",
)
"""Numbers of a workload that every layout has."""
_counts_of: Callable[[CheckpointWorkload], Sequence[float]] = operator.attrgetter(*_COUNTS)
_fields_of: Callable[[Demand], Sequence[float | None]] = operator.attrgetter(*(field.name for field in fields(Demand)))


def stack_workloads(rows: Sequence[tuple[CheckpointWorkload, RestoreStrategy]]) -> CheckpointWorkload:
    """The workloads of several layouts as arrays, a row for each: one evaluation answers them all.

    Each row comes with the strategy of its restore, whichever strategy is then asked for. Where a row's link to the
    host is not published, it is no number; where its network is not published, it limits nothing.
    """
    layouts = [workload for workload, _ in rows]
    is_reduced = any(workload.whole for workload in layouts)
    universal = None
    if all(workload.universal for workload in layouts):
        columns = ([getattr(row.universal, field.name) for row in layouts] for field in fields(Universal))
        universal = Universal(*map(_array, columns))
    publications = None
    if any(workload.publications for workload in layouts):
        stored = [workload.publications or _UNPUBLISHED for workload in layouts]
        columns = ([getattr(row, field.name) for row in stored] for field in fields(StoredPublications))
        publications = StoredPublications(*map(_array, columns))
    return CheckpointWorkload(
        write=_stack_demands([row.write for row in layouts]),
        restores=dict.fromkeys(
            RESTORE_STRATEGIES, _stack_plans([workload.restores[strategy] for workload, strategy in rows])
        ),
        own_restore=_stack_plans([row.own_restore for row in layouts]),
        **dict(zip(_COUNTS, _columns(map(_counts_of, layouts)), strict=True)),
        node=layouts[0].node,
        defaults=layouts[0].defaults,
        universal=universal,
        publications=publications,
        whole=stack_workloads([(row.unreduced, strategy) for row, strategy in rows]) if is_reduced else None,
        longest=stack_workloads([(row.longest or replace(row, whole=None), strategy) for row, strategy in rows])
        if any(row.longest for row in layouts)
        else None,
        gpu_link_bytes_per_second=_array(
            _fill_unknown([row.gpu_link_bytes_per_second for row in layouts], unknown=np.nan)
        ),
        network_bytes_per_second=_array(
            _fill_unknown([row.network_bytes_per_second for row in layouts], unknown=np.inf)
        ),
        process_bytes_per_second=layouts[0].process_bytes_per_second,
        more_copies=layouts[0].more_copies,
    )


def _stack_plans(plans: Sequence[ReadPlan]) -> ReadPlan:
    num_steps = max(len(plan.steps) for plan in plans)
    padded = [(*plan.steps, *[_NOTHING] * (num_steps - len(plan.steps))) for plan in plans]
    return ReadPlan(
        parts={},
        steps=tuple(_stack_demands(step) for step in zip(*padded, strict=True)),
        num_gpus=_array([plan.num_gpus for plan in plans]),
        exchanged_bytes_per_node=_array([plan.exchanged_bytes_per_node for plan in plans]),
        max_rank_read_bytes=_array([plan.max_rank_read_bytes for plan in plans]),
    )


def _stack_demands(steps: Iterable[Demand]) -> Demand:
    return Demand(*_columns(map(_fields_of, steps)))


def _columns(rows: Iterable[Sequence[float | None]]) -> Iterator[Any]:
    """A column of each figure of some rows; what only some of them have does not limit the others."""
    columns = list(zip(*rows, strict=True))
    table = _array([_fill_unknown(column, unknown=np.inf) for column in columns])
    for column, numbers in zip(columns, table, strict=True):
        yield None if column.count(None) == len(column) else numbers


def _fill_unknown(column: Sequence[Numbers | None], *, unknown: float) -> Sequence[Numbers]:
    return [unknown if value is None else value for value in column]


def _array(values: Sequence[object]) -> Any:
    """An array, which stands where the workload of one layout has a number."""
    return np.array(values, dtype=np.float64)
