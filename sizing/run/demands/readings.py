"""What a restore reads: which ranks read which part how many times, and what they then pass on to others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from sizing.layout import LaidOut, Parallelism
from sizing.layout.formats.readers import OWN, Copies, Readers, ReadingRanks
from sizing.layout.parallelism import Ranks
from sizing.layout.placement import place_writers
from sizing.layout.sharding import ranks_of_a_copy
from sizing.layout.size import METADATA
from sizing.run.demands.resharding import Amplification
from sizing.state.saved_state import RANK_PART, PartName
from sizing.storage.limits import Demand

RestoreStrategy = Literal["every-replica", "read-once-broadcast", "parallel-read-exchange"]
"""`every-replica`: each replica reads what it needs, as the format does by itself. `read-once-broadcast`: the ranks of
one replica read and send to the others. `parallel-read-exchange`: every rank reads a share, then they exchange."""

STRATEGIES: tuple[RestoreStrategy, ...] = ("every-replica", "read-once-broadcast", "parallel-read-exchange")

Group = ReadingRanks | Literal["one-replica"]


class Reading(NamedTuple):
    """Bytes of a part that all ranks together read, and that over the part's bytes in the files."""

    read_bytes: int
    num_readings: float


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """What one strategy reads, by part and by group of ranks, and what each node then receives from others.

    `read_together` names the parts of each of the demands.
    """

    readings: dict[str, Reading]
    demands: tuple[Demand, ...]
    num_gpus: int
    exchanged_bytes_per_node: float
    max_rank_read_bytes: float
    read_together: tuple[tuple[str, ...], ...] = ()

    def through(self, node_network_bytes_per_second: float | None) -> RestorePlan:
        """The same where the adapters of a node carry so much; None where nothing that is known holds them."""
        rate = node_network_bytes_per_second
        demands = (replace(demand, node_network_bytes_per_second=rate) for demand in self.demands)
        return replace(self, demands=tuple(demands))

    @property
    def read_bytes(self) -> int:
        """Of one restore, over all ranks."""
        return sum(reading.read_bytes for reading in self.readings.values())


@dataclass(frozen=True, slots=True)
class _Restoring:
    """The layout that restores, who reads each part where each replica reads for itself, and what more than needed."""

    laid_out: LaidOut
    parallelism: Parallelism
    amplification: Amplification
    readers: dict[PartName, Readers]


@dataclass(frozen=True, slots=True)
class _PartReading:
    """One part: who reads it, how many bytes in all, how many the busiest rank, and what a node receives or sends."""

    name: str
    group: Group
    read_bytes: int
    num_readings: float
    max_rank_bytes: float
    exchanged_bytes_per_node: float


def restore_plans(
    laid_out: LaidOut, parallelism: Parallelism, *, amplification: Amplification
) -> dict[RestoreStrategy, RestorePlan]:
    """What the layout reads with each strategy, in the proportion of an observed size if there is one.

    Groups read one after the other: `.metadata` first, which every rank reads, then the parts.
    """
    readers = {name: _readers(laid_out, parallelism, name) for name in laid_out.size.parts}
    restoring = _Restoring(laid_out, parallelism, amplification, readers)
    if all(max(each.copies) == 1 for each in readers.values()):
        return dict.fromkeys(STRATEGIES, _plan(restoring, "every-replica"))  # nobody else holds what a rank reads
    return {strategy: _plan(restoring, strategy) for strategy in STRATEGIES}


def _readers(laid_out: LaidOut, parallelism: Parallelism, name: PartName) -> Readers:
    return OWN if name == RANK_PART else laid_out.saved_as.readers(name, parallelism, laid_out.sharding)


def _plan(restoring: _Restoring, strategy: RestoreStrategy) -> RestorePlan:
    laid_out, parallelism = restoring.laid_out, restoring.parallelism
    parts = list(_part_readings(restoring, strategy))
    return RestorePlan(
        readings={part.name: Reading(part.read_bytes, part.num_readings) for part in parts},
        demands=tuple(_demands(laid_out, parallelism, parts)),
        num_gpus=parallelism.num_gpus,
        exchanged_bytes_per_node=sum(part.exchanged_bytes_per_node for part in parts),
        max_rank_read_bytes=sum(part.max_rank_bytes for part in parts),
        read_together=tuple(_read_together(parts)),
    )


def _part_readings(restoring: _Restoring, strategy: RestoreStrategy) -> Iterator[_PartReading]:
    laid_out, ranks = restoring.laid_out, restoring.parallelism.num_gpus
    metadata_bytes = laid_out.size.small_state_bytes.get(METADATA, 0)
    if metadata_bytes:
        yield _PartReading(METADATA, "everyone", metadata_bytes * ranks, ranks, metadata_bytes, 0.0)
    for name, readers in restoring.readers.items():
        if max(readers.copies) == 1 or strategy == "every-replica":
            yield _read_by_format(restoring, name, readers)
        else:
            yield _read_once(restoring, name, readers.copies, strategy)


def _read_by_format(restoring: _Restoring, name: PartName, readers: Readers) -> _PartReading:
    reading, layout = _read(restoring, name, readers.copies), restoring.laid_out.on_nodes
    busiest = _largest(restoring, name, readers.sharers)
    match readers.ranks:
        case "everyone":
            return _PartReading(name, "everyone", *reading, busiest, 0.0)
        case "writers":
            sent = _sent_bytes(reading, num_sources=layout.num_writing_nodes, num_nodes=layout.num_nodes)
            return _PartReading(name, "writers", *reading, busiest, sent)
        case "rank-0":
            sent = _sent_bytes(reading, num_sources=1, num_nodes=layout.num_nodes)
            return _PartReading(name, "rank-0", *reading, reading.read_bytes, sent)


def _sent_bytes(reading: Reading, *, num_sources: int, num_nodes: int) -> float:
    """Bytes that each node that reads sends to the others."""
    return reading.read_bytes / num_sources if num_nodes > 1 else 0.0


def _read_once(
    restoring: _Restoring, name: PartName, copies: Ranks | Copies, strategy: RestoreStrategy
) -> _PartReading:
    """Each byte is read once, and each node then receives what its ranks hold, or what they have not read of it."""
    laid_out = restoring.laid_out
    reading = _read(restoring, name, Ranks())
    held = laid_out.dense_bytes[name] * copies.dense + laid_out.expert_bytes[name] * copies.expert
    num_nodes = laid_out.on_nodes.num_nodes
    received = _scaled(laid_out, held) / num_nodes if num_nodes > 1 else 0.0
    if strategy == "read-once-broadcast":
        return _PartReading(name, "one-replica", *reading, _largest(restoring, name, Ranks()), received)
    highest = max(copies)
    return _PartReading(
        name, "everyone", *reading, _largest(restoring, name, copies), received * (highest - 1) / highest
    )


def _read(restoring: _Restoring, name: PartName, copies: Ranks | Copies) -> Reading:
    laid_out, more = restoring.laid_out, restoring.amplification
    dense, expert = laid_out.dense_bytes[name] * copies.dense, laid_out.expert_bytes[name] * copies.expert
    computed, part_bytes = dense * more.dense + expert * more.expert, laid_out.size.parts[name].total_bytes
    return Reading(_scaled(laid_out, computed), computed / part_bytes if part_bytes else 0.0)


def _scaled(laid_out: LaidOut, num_bytes: float) -> int:
    size = laid_out.size
    return round(num_bytes) * size.written_bytes // size.total_bytes


def _largest(restoring: _Restoring, name: PartName, sharers: Ranks | Copies) -> float:
    """What the fullest rank reads of a part whose bytes so many ranks share."""
    laid_out, more = restoring.laid_out, restoring.amplification
    dense = laid_out.max_dense.part_bytes.get(name, 0) / sharers.dense * more.dense
    expert = laid_out.max_expert.part_bytes.get(name, 0) / sharers.expert * more.expert
    return float(_scaled(laid_out, dense + expert))


def _demands(laid_out: LaidOut, parallelism: Parallelism, parts: list[_PartReading]) -> Iterator[Demand]:
    size = laid_out.size
    if parts[0].name == METADATA:
        streams, nodes = _streams_and_nodes(laid_out, parallelism, "everyone")
        yield Demand(parts[0].read_bytes, streams, nodes, streams, num_planned_ranks=streams)
    by_group: dict[Group, int] = {}
    for part in parts:
        if part.name != METADATA:
            by_group[part.group] = by_group.get(part.group, 0) + part.read_bytes
    for group, num_bytes in by_group.items():
        num_files = round(size.num_files * num_bytes / size.written_bytes)
        yield Demand(num_bytes, *_streams_and_nodes(laid_out, parallelism, group), num_files)


def _read_together(parts: list[_PartReading]) -> Iterator[tuple[str, ...]]:
    """The parts of each demand, in the order of `_demands`."""
    groups: dict[tuple[bool, Group], list[str]] = {}
    for part in parts:
        groups.setdefault((part.name == METADATA, part.group), []).append(part.name)
    yield from map(tuple, groups.values())


def _streams_and_nodes(laid_out: LaidOut, parallelism: Parallelism, group: Group) -> tuple[int, float]:
    layout = laid_out.on_nodes
    match group:
        case "rank-0":
            return 1, 1.0
        case "writers":
            return layout.num_writers, layout.num_writers / layout.max_writers_per_node
        case "one-replica":
            return _one_replica(laid_out, parallelism)
        case "everyone":
            return layout.num_gpus, layout.num_gpus / min(layout.num_gpus, layout.gpus_per_node)


def _one_replica(laid_out: LaidOut, parallelism: Parallelism) -> tuple[int, float]:
    """The ranks that hold one copy of everything, and the nodes as full as their fullest that they stand on."""
    per_stage = ranks_of_a_copy(parallelism, shard_group=laid_out.sharding.shard_group)
    ranks = per_stage * parallelism.pipeline
    if ranks == laid_out.on_nodes.num_writers:
        return ranks, ranks / laid_out.on_nodes.max_writers_per_node
    placed = place_writers(parallelism, writers_per_stage=per_stage, gpus_per_node=laid_out.on_nodes.gpus_per_node)
    return ranks, ranks / placed.max_per_node
