"""What a restore reads: which ranks read which part, how many times, and what they then pass on to others.

A format says who reads each part; a strategy may let one replica read and send to the others. Restoring into another
layout than the one that saved reads more than is needed.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sizing.layout import CheckpointLayout, Parallelism
from sizing.layout.containers import METADATA
from sizing.layout.files import count_files
from sizing.layout.formats.base import OWN, Copies, Readers, ReadingRanks
from sizing.layout.holders import Content
from sizing.layout.parallelism import DEFAULT_RANK_ORDER, Ranks
from sizing.layout.placement import (
    MAX_WRITERS_WALKED,
    max_node_bytes,
    nodes_of_writers,
    num_nodes_of_copies,
    place_writers,
)
from sizing.layout.ranks import numbers_in_stage
from sizing.layout.sharding import WHOLE, ranks_of_a_copy
from sizing.state.saved_state import RANK_PART, PartName
from sizing.storage.limits import Demand
from sizing.storage.terms import in_turn
from sizing.storage.transfer import Floats

RestoreStrategy = Literal["every-replica", "read-once-broadcast", "parallel-read-exchange"]
"""`every-replica`: each replica reads what it needs, as the format does by itself. `read-once-broadcast`: the ranks of
one replica read and send to the others. `parallel-read-exchange`: every rank reads a share, then they exchange."""
RESTORE_STRATEGIES: tuple[RestoreStrategy, ...] = ("every-replica", "read-once-broadcast", "parallel-read-exchange")
Group = ReadingRanks | Literal["one-replica"]
_FileContent = tuple[tuple[PartName, ...], tuple[PartName, ...]]
"""Parts of dense tensors, and of experts, of which a file has bytes."""


class Amplification(NamedTuple):
    """Bytes read over bytes needed, of dense tensors and of routed experts."""

    dense: float = 1
    expert: float = 1


def amplification(checkpoint_layout: CheckpointLayout, saved: Parallelism, restored: Parallelism) -> Amplification:
    """What restoring `saved` into `restored` reads over what it needs: overlapping shards / saved shards, by tensor.

    Shards overlap where they do along every dimension, so the pairs of the dimensions multiply: tensor ranks that cut
    columns and FSDP ranks that cut rows cannot take each other's place. Tensors weigh by their parameters.
    """
    if saved == restored:
        return Amplification()
    read, needed = [0.0, 0.0], [0, 0]
    for span in {id(holder.span): holder.span for holder in checkpoint_layout.holders}.values():
        for holding in span.holdings:
            before, after = (checkpoint_layout.saved_as.num_cuts(holding, each) for each in (saved, restored))
            parameters = len(span.stages) * holding.count * max(1, holding.experts) * math.prod(holding.shape)
            kind, pairs = bool(holding.experts), math.prod(map(overlapping_shards, before, after))
            read[kind] += parameters * pairs / math.prod(before)
            needed[kind] += parameters
    return Amplification(*(more / all_of if all_of else 1.0 for more, all_of in zip(read, needed, strict=True)))


def overlapping_shards(num_saved: int, num_restored: int) -> int:
    """Pairs of saved and restored shards that overlap along a dimension: n + m - gcd(n, m).

    Each restored shard reads every saved one that it overlaps, whole. Both cut one dimension into equal runs; an
    inner border of one is one of the other gcd(n, m) - 1 times.
    Source: counting; torch.distributed.checkpoint, filesystem.py, read_data, which loads a saved shard and narrows it.

    >>> overlapping_shards(8, 8), overlapping_shards(8, 4), overlapping_shards(8, 6)
    (8, 8, 12)
    """
    return num_saved + num_restored - math.gcd(num_saved, num_restored)


class PartRead(NamedTuple):
    """Bytes of a part that all ranks together read, and that over the part's bytes in the files."""

    read_bytes: int
    num_readings: float


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What one strategy reads, by part and by group of ranks, and what each node then receives from others.

    `read_together` names the parts of each of the steps, which follow one another; of these the busiest rank reads
    `max_rank_bytes_of_steps`.
    """

    parts: dict[str, PartRead]
    steps: tuple[Demand, ...]
    num_gpus: int
    exchanged_bytes_per_node: float
    max_rank_read_bytes: float
    read_together: tuple[tuple[str, ...], ...] = ()
    max_rank_bytes_of_steps: tuple[float, ...] = ()

    def through(self, node_network_bytes_per_second: float | None) -> ReadPlan:
        """The plan where the adapters of a node carry so much; None where nothing that is known holds them."""
        rate = node_network_bytes_per_second
        return replace(self, steps=tuple(replace(step, node_network_bytes_per_second=rate) for step in self.steps))

    @property
    def read_bytes(self) -> int:
        """Bytes that all ranks together read in one restore."""
        return sum(reading.read_bytes for reading in self.parts.values())


@dataclass(frozen=True)
class _Restoring:
    """The layout that restores, who reads each part where each replica reads for itself, and what more than needed."""

    checkpoint_layout: CheckpointLayout
    parallelism: Parallelism
    amplification: Amplification
    readers: dict[PartName, Readers]

    def num_opened_files(self, names: Collection[str], *, is_every_replica: bool) -> int:
        """Files that all ranks together open for some parts: each file once for every rank that reads in it.

        Shards that do not line up are read by as many more. A file without tensors is opened once, by its own rank.
        """
        more, size = self.amplification, self.checkpoint_layout.size
        copies = {
            name: self.readers[name].copies if is_every_replica else Copies() for name in size.parts if name in names
        }
        num_opened = 0.0
        for (of_dense, of_experts), num_files in self.files_by_content.items():
            dense = max((copies[name].dense for name in of_dense if name in copies), default=0.0) * more.dense
            expert = max((copies[name].expert for name in of_experts if name in copies), default=0.0) * more.expert
            num_opened += num_files * (max(dense, expert) if of_dense or of_experts else 1)
        return round(num_opened)

    @functools.cached_property
    def files_by_content(self) -> Mapping[_FileContent, int]:
        """Number of files of all ranks, by the parts of dense tensors and of experts in them."""
        counts = Counter[_FileContent]()
        for num_writers, file in count_files(self.checkpoint_layout.writers):
            of_dense, of_experts = (
                tuple(name for name, num_bytes in each.items() if num_bytes) for each in (file.dense, file.expert)
            )
            counts[of_dense, of_experts] += num_writers * file.count
        return counts

    def fullest_node_bytes(self, group: Group, together: Collection[_PlannedRead], *, max_per_node: int) -> float:
        """Bytes of these parts that the ranks of the fullest node read: those that wrote, or the first of each stage.

        Source: `layout.placement.max_node_bytes`, and its estimate where a stage has too many ranks to walk over.
        """
        checkpoint_layout, parallelism = self.checkpoint_layout, self.parallelism
        layout, holders = checkpoint_layout.on_nodes, checkpoint_layout.holders
        rank_bytes = np.sum([np.broadcast_to(part.rank_bytes, len(holders)) for part in together], axis=0)
        num_ranks = parallelism.ranks_per_stage
        if group == "one-replica":
            num_ranks = ranks_of_a_copy(parallelism, shard_group=checkpoint_layout.sharding.shard_group)
        if np.ptp(rank_bytes) == 0 or num_ranks > MAX_WRITERS_WALKED:
            return max_per_node * float(np.max(rank_bytes))
        if group != "writers":
            gpus_per_node = layout.gpus_per_node
            if parallelism.rank_order == DEFAULT_RANK_ORDER and parallelism.ranks_per_stage % gpus_per_node == 0:
                # Further nodes of a stage repeat.
                num_ranks = min(num_ranks, math.lcm(parallelism.tensor, gpus_per_node))
            nodes, num_bytes = self.nodes_of_first_ranks(num_ranks), [round(each) for each in rank_bytes]
            return max_node_bytes(nodes, num_bytes, max_writers_per_node=max_per_node)
        size = checkpoint_layout.size
        names = [name for name in size.parts if name in {part.name for part in together}]
        written = [
            round(sum(file.bytes_of(names) for file in writer.files) * size.written_bytes / size.total_bytes)
            for writer in checkpoint_layout.writers
        ]
        numbers = [(writer.span.stages, numbers_in_stage(writer)) for writer in checkpoint_layout.writers]
        nodes = nodes_of_writers(parallelism, numbers, gpus_per_node=layout.gpus_per_node)
        return max_node_bytes(nodes, written, max_writers_per_node=max_per_node)

    @functools.cached_property
    def nodes_of_first_ranks(self) -> Callable[[int], list[npt.NDArray[np.int64]] | None]:
        """List the nodes of the first so many ranks of each stage, by class of holders, once for all strategies."""
        parallelism, holders = self.parallelism, self.checkpoint_layout.holders
        gpus_per_node = self.checkpoint_layout.on_nodes.gpus_per_node

        @functools.cache
        def nodes_of(num_ranks: int) -> list[npt.NDArray[np.int64]] | None:
            tensor_ranks = np.arange(num_ranks) % parallelism.tensor
            edges = [(holder.tensor_ranks.start, holder.tensor_ranks.stop) for holder in holders]
            numbers = [np.flatnonzero((tensor_ranks >= first) & (tensor_ranks < past)) for first, past in edges]
            of_stages = list(zip((holder.span.stages for holder in holders), numbers, strict=True))
            return nodes_of_writers(parallelism, of_stages, gpus_per_node=gpus_per_node)

        return nodes_of


@dataclass(frozen=True, slots=True)
class _PlannedRead:
    """One part: who reads it, how many bytes in all, how many a rank, and what a node receives or sends.

    `rank_bytes` has one number for a reading rank of each class of holders, or one for all that read.
    """

    name: str
    group: Group
    read_bytes: int
    num_readings: float
    rank_bytes: Floats
    exchanged_bytes_per_node: float


def read_plans(
    checkpoint_layout: CheckpointLayout, parallelism: Parallelism, *, amplification: Amplification
) -> dict[RestoreStrategy, ReadPlan]:
    """What the layout reads with each strategy, in the proportion of an observed size if there is one.

    Groups read one after the other: `.metadata` first, which every rank reads, then the parts.
    """
    readers = {
        name: OWN
        if name == RANK_PART
        else checkpoint_layout.saved_as.readers(name, parallelism, checkpoint_layout.sharding)
        for name in checkpoint_layout.size.parts
    }
    restoring = _Restoring(checkpoint_layout, parallelism, amplification, readers)
    if all(max(each.copies) <= 1 for each in readers.values()):
        return dict.fromkeys(
            RESTORE_STRATEGIES, _plan(restoring, "every-replica")
        )  # nobody else holds what a rank reads
    return {strategy: _plan(restoring, strategy) for strategy in RESTORE_STRATEGIES}


def _plan(restoring: _Restoring, strategy: RestoreStrategy) -> ReadPlan:
    parts = list(_plan_reads(restoring, strategy))
    steps = list(_plan_steps(restoring, parts, is_every_replica=strategy == "every-replica"))
    rank_bytes = {part.name: part.rank_bytes for part in parts}
    return ReadPlan(
        parts={part.name: PartRead(part.read_bytes, part.num_readings) for part in parts},
        steps=tuple(in_turn(step for _, step in steps)),
        num_gpus=restoring.parallelism.num_gpus,
        exchanged_bytes_per_node=sum(part.exchanged_bytes_per_node for part in parts),
        max_rank_read_bytes=float(np.max(sum(rank_bytes.values()))),
        read_together=tuple(names for names, _ in steps),
        max_rank_bytes_of_steps=tuple(float(np.max(sum(map(rank_bytes.__getitem__, names)))) for names, _ in steps),
    )


def _plan_reads(restoring: _Restoring, strategy: RestoreStrategy) -> Iterator[_PlannedRead]:
    checkpoint_layout, ranks = restoring.checkpoint_layout, restoring.parallelism.num_gpus
    metadata_bytes = checkpoint_layout.size.small_state_bytes.get(METADATA, 0)
    if metadata_bytes:
        yield _PlannedRead(METADATA, "everyone", metadata_bytes * ranks, ranks, np.array([float(metadata_bytes)]), 0.0)
    for name, readers in restoring.readers.items():
        if max(readers.copies) <= 1 or strategy == "every-replica":
            yield _read_by_format(restoring, name, readers)
        else:
            yield _read_once(restoring, name, readers, strategy)


def _read_by_format(restoring: _Restoring, name: PartName, readers: Readers) -> _PlannedRead:
    reading, layout = _read(restoring, name, readers.copies), restoring.checkpoint_layout.on_nodes
    match readers.ranks:
        case "everyone":
            return _PlannedRead(name, "everyone", *reading, _rank_bytes(restoring, name, readers), 0.0)
        case "writers":
            sent = _sent_bytes(reading, num_sources=layout.num_writing_nodes, num_nodes=layout.num_nodes)
            return _PlannedRead(name, "writers", *reading, _rank_bytes(restoring, name, readers), sent)
        case "rank-0":
            sent = _sent_bytes(reading, num_sources=1, num_nodes=layout.num_nodes)
            return _PlannedRead(name, "rank-0", *reading, np.array([float(reading.read_bytes)]), sent)


def _sent_bytes(reading: PartRead, *, num_sources: int, num_nodes: int) -> float:
    """Bytes that each reading node sends to the others."""
    return reading.read_bytes / num_sources if num_nodes > 1 else 0.0


def _read_once(restoring: _Restoring, name: PartName, readers: Readers, strategy: RestoreStrategy) -> _PlannedRead:
    """Plan to read each byte once, and to send each node what its ranks hold, or what they have not read of it.

    What several ranks of a node hold reaches the node once, and not at all where no other node holds it.
    """
    checkpoint_layout, p = restoring.checkpoint_layout, restoring.parallelism
    num_bytes = checkpoint_layout.dense_bytes[name], checkpoint_layout.expert_bytes[name]
    num_different, layout = (p.tensor, p.expert * p.expert_tensor_degree), checkpoint_layout.on_nodes
    is_exchanged, received = strategy == "parallel-read-exchange", 0.0
    for saved, read, sharers, replicas, in_a_row in zip(
        num_bytes, readers.copies, readers.sharers, p.replicas, num_different, strict=True
    ):
        copies = max(1, replicas // sharers)
        nodes = num_nodes_of_copies(p, copies=copies, apart=in_a_row * sharers, gpus_per_node=layout.gpus_per_node)
        if nodes > 1:
            received += saved * read / (readers.times * copies) * (nodes - is_exchanged)
    of_a_node = _scale_to_observed(checkpoint_layout, received) / layout.num_nodes
    reading = _read(restoring, name, WHOLE)
    if is_exchanged:
        busiest = _rank_bytes(restoring, name, readers, copies=readers.copies)
        return _PlannedRead(name, "everyone", *reading, busiest, of_a_node)
    shards = max(1, checkpoint_layout.sharding.shard_group // readers.sharers.dense)
    busiest = _rank_bytes(restoring, name, readers, copies=Ranks(shards, shards))
    return _PlannedRead(name, "one-replica", *reading, busiest, of_a_node)


def _read(restoring: _Restoring, name: PartName, copies: Ranks | Copies) -> PartRead:
    checkpoint_layout, more = restoring.checkpoint_layout, restoring.amplification
    dense, expert = (
        checkpoint_layout.dense_bytes[name] * copies.dense,
        checkpoint_layout.expert_bytes[name] * copies.expert,
    )
    computed, part_bytes = dense * more.dense + expert * more.expert, checkpoint_layout.size.parts[name].total_bytes
    return PartRead(_scale_to_observed(checkpoint_layout, computed), computed / part_bytes if part_bytes else 0.0)


def _scale_to_observed(checkpoint_layout: CheckpointLayout, num_bytes: float) -> int:
    size = checkpoint_layout.size
    return round(num_bytes) * size.written_bytes // size.total_bytes


def _rank_bytes(restoring: _Restoring, name: PartName, readers: Readers, *, copies: Ranks | Copies = WHOLE) -> Floats:
    """What a rank of each class of holders reads of a part: what it holds, or an equal share with those of copies."""
    checkpoint_layout, more = restoring.checkpoint_layout, restoring.amplification

    def read_bytes(dense: Content, expert: Content) -> float:
        read = sum(
            content.part_bytes.get(name, 0) * content.share_of_fullest(sharers) / copy * amplified
            for content, sharers, copy, amplified in zip((dense, expert), readers.sharers, copies, more, strict=True)
        )
        return float(_scale_to_observed(checkpoint_layout, read * readers.times))

    if name == RANK_PART:
        return np.array([read_bytes(checkpoint_layout.max_dense, checkpoint_layout.max_expert)])
    return np.array([read_bytes(holder.dense, holder.expert) for holder in checkpoint_layout.holders])


def _plan_steps(
    restoring: _Restoring, parts: list[_PlannedRead], *, is_every_replica: bool
) -> Iterator[tuple[tuple[str, ...], Demand]]:
    """The names of the parts of each step, and what it asks: `.metadata` first, then the parts of each group.

    All wait for the rank, and the node, that reads most.
    """
    checkpoint_layout, parallelism = restoring.checkpoint_layout, restoring.parallelism
    fullest = checkpoint_layout.sharding.fullest_over_mean
    groups: dict[Group, list[_PlannedRead]] = {}
    for part in parts:
        if part.name != METADATA:
            groups.setdefault(part.group, []).append(part)
            continue
        streams, nodes = _streams_and_nodes(checkpoint_layout, parallelism, "everyone")
        yield (METADATA,), Demand(part.read_bytes, streams, nodes, streams, num_planned_ranks=streams)
    for group, together in groups.items():
        num_bytes = sum(part.read_bytes for part in together)
        names = tuple(part.name for part in together)
        streams, nodes = _streams_and_nodes(checkpoint_layout, parallelism, group)
        largest = float(np.max(sum(part.rank_bytes for part in together)))
        node_bytes = restoring.fullest_node_bytes(group, together, max_per_node=round(streams / nodes))
        yield (
            names,
            Demand(
                num_bytes,
                streams,
                nodes,
                restoring.num_opened_files(names, is_every_replica=is_every_replica),
                largest_over_mean=max(fullest, _over_mean(largest, num_bytes, streams)),
                fullest_node_over_mean=checkpoint_layout.fullest_node_over_mean
                if fullest > 1
                else _over_mean(node_bytes, num_bytes, nodes),
            ),
        )


def _over_mean(largest: float, total: float, num_units: float) -> float:
    """Bytes of the largest of some units over their mean: 1 to the number of units."""
    return min(max(1.0, largest * num_units / total), num_units) if total else 1.0


def _streams_and_nodes(
    checkpoint_layout: CheckpointLayout, parallelism: Parallelism, group: Group
) -> tuple[int, float]:
    layout = checkpoint_layout.on_nodes
    match group:
        case "rank-0":
            return 1, 1.0
        case "writers":
            return layout.num_writers, layout.num_writers / layout.max_writers_per_node
        case "one-replica":
            return _one_replica(checkpoint_layout, parallelism)
        case "everyone":
            return layout.num_gpus, layout.num_gpus / min(layout.num_gpus, layout.gpus_per_node)


def _one_replica(checkpoint_layout: CheckpointLayout, parallelism: Parallelism) -> tuple[int, float]:
    """The ranks that hold one copy of everything, and the nodes as full as their fullest that they stand on."""
    per_stage = ranks_of_a_copy(parallelism, shard_group=checkpoint_layout.sharding.shard_group)
    ranks = per_stage * parallelism.pipeline
    if ranks == checkpoint_layout.on_nodes.num_writers:
        return ranks, ranks / checkpoint_layout.on_nodes.max_writers_per_node
    placed = place_writers(
        parallelism, writers_per_stage=per_stage, gpus_per_node=checkpoint_layout.on_nodes.gpus_per_node
    )
    return ranks, ranks / placed.max_per_node
