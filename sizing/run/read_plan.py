"""What a restore reads: which ranks read which part, how many times, and what they then pass on to others.

A format says who reads each part; a strategy may let one replica read and send to the others. Restoring into another
layout than the one that saved reads more than is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from sizing.layout import CheckpointLayout, Parallelism
from sizing.layout.containers import METADATA
from sizing.layout.formats.base import OWN, Copies, Readers, ReadingRanks
from sizing.layout.parallelism import Ranks
from sizing.layout.placement import num_nodes_of_copies, place_writers
from sizing.layout.sharding import WHOLE, ranks_of_a_copy
from sizing.state.saved_state import RANK_PART, PartName
from sizing.storage.limits import Demand

RestoreStrategy = Literal["every-replica", "read-once-broadcast", "parallel-read-exchange"]
"""`every-replica`: each replica reads what it needs, as the format does by itself. `read-once-broadcast`: the ranks of
one replica read and send to the others. `parallel-read-exchange`: every rank reads a share, then they exchange."""
RESTORE_STRATEGIES: tuple[RestoreStrategy, ...] = ("every-replica", "read-once-broadcast", "parallel-read-exchange")
Group = ReadingRanks | Literal["one-replica"]


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


@dataclass(frozen=True, slots=True)
class _Restoring:
    """The layout that restores, who reads each part where each replica reads for itself, and what more than needed."""

    checkpoint_layout: CheckpointLayout
    parallelism: Parallelism
    amplification: Amplification
    readers: dict[PartName, Readers]


@dataclass(frozen=True, slots=True)
class _PlannedRead:
    """One part: who reads it, how many bytes in all, how many the busiest rank, and what a node receives or sends."""

    name: str
    group: Group
    read_bytes: int
    num_readings: float
    max_rank_bytes: float
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
    checkpoint_layout, parallelism = restoring.checkpoint_layout, restoring.parallelism
    parts = list(_plan_reads(restoring, strategy))
    steps = list(_plan_steps(checkpoint_layout, parallelism, parts))
    max_rank_bytes = {part.name: part.max_rank_bytes for part in parts}
    return ReadPlan(
        parts={part.name: PartRead(part.read_bytes, part.num_readings) for part in parts},
        steps=tuple(step for _, step in steps),
        num_gpus=parallelism.num_gpus,
        exchanged_bytes_per_node=sum(part.exchanged_bytes_per_node for part in parts),
        max_rank_read_bytes=sum(max_rank_bytes.values()),
        read_together=tuple(names for names, _ in steps),
        max_rank_bytes_of_steps=tuple(sum(map(max_rank_bytes.__getitem__, names)) for names, _ in steps),
    )


def _plan_reads(restoring: _Restoring, strategy: RestoreStrategy) -> Iterator[_PlannedRead]:
    checkpoint_layout, ranks = restoring.checkpoint_layout, restoring.parallelism.num_gpus
    metadata_bytes = checkpoint_layout.size.small_state_bytes.get(METADATA, 0)
    if metadata_bytes:
        yield _PlannedRead(METADATA, "everyone", metadata_bytes * ranks, ranks, metadata_bytes, 0.0)
    for name, readers in restoring.readers.items():
        if max(readers.copies) <= 1 or strategy == "every-replica":
            yield _read_by_format(restoring, name, readers)
        else:
            yield _read_once(restoring, name, readers, strategy)


def _read_by_format(restoring: _Restoring, name: PartName, readers: Readers) -> _PlannedRead:
    reading, layout = _read(restoring, name, readers.copies), restoring.checkpoint_layout.on_nodes
    match readers.ranks:
        case "everyone":
            return _PlannedRead(name, "everyone", *reading, _largest(restoring, name, readers), 0.0)
        case "writers":
            sent = _sent_bytes(reading, num_sources=layout.num_writing_nodes, num_nodes=layout.num_nodes)
            return _PlannedRead(name, "writers", *reading, _largest(restoring, name, readers), sent)
        case "rank-0":
            sent = _sent_bytes(reading, num_sources=1, num_nodes=layout.num_nodes)
            return _PlannedRead(name, "rank-0", *reading, reading.read_bytes, sent)


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
        busiest = _largest(restoring, name, readers, copies=readers.copies)
        return _PlannedRead(name, "everyone", *reading, busiest, of_a_node)
    shards = max(1, checkpoint_layout.sharding.shard_group // readers.sharers.dense)
    busiest = _largest(restoring, name, readers, copies=Ranks(shards, shards))
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


def _largest(restoring: _Restoring, name: PartName, readers: Readers, *, copies: Ranks | Copies = WHOLE) -> float:
    """What the fullest rank reads of a part: what it holds, or an equal share of it with those that hold copies."""
    checkpoint_layout, more = restoring.checkpoint_layout, restoring.amplification
    held = checkpoint_layout.max_dense.part_bytes.get(name, 0), checkpoint_layout.max_expert.part_bytes.get(name, 0)
    read = sum(
        num_bytes / (sharers * copy) * amplified
        for num_bytes, sharers, copy, amplified in zip(held, readers.sharers, copies, more, strict=True)
    )
    fullest = checkpoint_layout.sharding.fullest_over_mean
    return float(_scale_to_observed(checkpoint_layout, read * readers.times)) * fullest


def _plan_steps(
    checkpoint_layout: CheckpointLayout, parallelism: Parallelism, parts: list[_PlannedRead]
) -> Iterator[tuple[tuple[str, ...], Demand]]:
    """The names of the parts of each step, and what it asks: `.metadata` first, then the parts of each group."""
    size, fullest = checkpoint_layout.size, checkpoint_layout.sharding.fullest_over_mean
    fullest_node = checkpoint_layout.fullest_node_over_mean if fullest > 1 else 1.0
    groups: dict[Group, list[_PlannedRead]] = {}
    for part in parts:
        if part.name != METADATA:
            groups.setdefault(part.group, []).append(part)
            continue
        streams, nodes = _streams_and_nodes(checkpoint_layout, parallelism, "everyone")
        yield (METADATA,), Demand(part.read_bytes, streams, nodes, streams, num_planned_ranks=streams)
    for group, together in groups.items():
        num_bytes = sum(part.read_bytes for part in together)
        num_files = round(size.num_rank_files * num_bytes / size.written_bytes)
        names = tuple(part.name for part in together)
        yield (
            names,
            Demand(
                num_bytes,
                *_streams_and_nodes(checkpoint_layout, parallelism, group),
                num_files,
                largest_over_mean=fullest,
                fullest_node_over_mean=fullest_node,
            ),
        )


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
