"""The configurations of a scan: every combination of what is varied, in an order drawn by lot."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterable, Iterator

from io_bench.engines import ENGINES, EngineOptions
from io_bench.payload.device import Device
from io_bench.payload.inventory import inventory_of
from io_bench.planning.configuration import Configuration
from io_bench.ranks.process_group import ProcessGroup
from io_bench.request.options import (
    DEFAULT_BYTES_PER_RANK,
    MAX_DEFAULT_WRITERS,
    MIN_BLOCK_BYTES,
    MIN_BYTES_PER_RANK,
    ScanOptions,
)
from io_bench.target.address import is_url
from sizing.errors import InvalidInput
from sizing.units import parse_bytes

MAX_CONFIGURATIONS = 10_000
"""A day of ten seconds each: more is a typing error."""


def configurations_of(options: ScanOptions, group: ProcessGroup, *, seed: int) -> list[Configuration]:
    """Every combination once, shuffled by the seed, so that drift of the storage does not look like a trend.

    Raises InvalidInput for more nodes or writers than were started.
    """
    max_writers = min(len(list(ranks)) for ranks in _ranks_by_node(group))
    nodes = options.num_nodes or tuple(doublings(len(group.nodes)))
    writers = options.writers_per_node or tuple(doublings(min(max_writers, MAX_DEFAULT_WRITERS)))
    _check("--nodes", nodes, len(group.nodes), "nodes")
    _check("--writers", writers, max_writers, "ranks on each node")
    sizes = (None,) if options.scenario else options.bytes_per_rank or (parse_bytes(DEFAULT_BYTES_PER_RANK),)
    combinations = itertools.product(
        options.engines,
        nodes,
        writers,
        sizes,
        options.block_bytes or (None,),
        options.threads_per_rank or (None,),
        list(itertools.product(options.stripe_count or (None,), options.stripe_bytes or (None,))),
    )
    in_parts = is_url(options.target)
    found = list(dict.fromkeys(_configuration(*combination, in_parts=in_parts) for combination in combinations))
    if len(found) > MAX_CONFIGURATIONS:
        rule = f"must have at most {MAX_CONFIGURATIONS:,} configurations"
        raise InvalidInput.of("the scan", rule, value=f"{len(found):,}", remedy="give fewer values per flag")
    random.Random(seed).shuffle(found)  # noqa: S311 - an order, not a secret
    return found


def doublings(limit: int) -> Iterator[int]:
    """1, 2, 4 and so on, and `limit` itself.

    >>> list(doublings(6)), list(doublings(1))
    ([1, 2, 4, 6], [1])
    """
    number = 1
    while number < limit:
        yield number
        number *= 2
    yield limit


def _configuration(
    engine: str,
    num_nodes: int,
    writers: int,
    num_bytes: int | None,
    block_bytes: int | None,
    threads: int | None,
    stripes: tuple[int | None, int | None],
    *,
    in_parts: bool,
) -> Configuration:
    """A combination without what its engine does not heed, so that nothing is measured twice.

    Args: `stripes`, count and bytes; `in_parts`, where the target moves files in parts of its own, of that size and
    number, whatever the engine.
    """
    heeds_blocks, heeds_threads = (True, True) if in_parts else _heeded(engine)
    return Configuration(
        engine=engine,
        num_nodes=num_nodes,
        writers_per_node=writers,
        bytes_per_rank=num_bytes,
        block_bytes=block_bytes if heeds_blocks else None,
        threads_per_rank=threads if heeds_threads else None,
        stripe_count=stripes[0],
        stripe_bytes=stripes[1],
    )


@functools.cache
def _heeded(engine: str) -> tuple[bool, bool]:
    """Whether an engine takes the size of its requests, and the number of its threads, from the options."""
    one, other = (
        ENGINES[engine](EngineOptions(block_bytes=number * MIN_BLOCK_BYTES, num_threads=number)).plan(
            inventory_of(MIN_BYTES_PER_RANK), rank=0, device=Device("cpu")
        )
        for number in (1, 2)
    )
    return one.block_bytes != other.block_bytes, one.num_threads != other.num_threads


def _ranks_by_node(group: ProcessGroup) -> Iterator[Iterable[int]]:
    for node in group.nodes:
        yield (placement.rank for placement in group.placements if placement.node == node)


def _check(flag: str, values: tuple[int, ...], limit: int, what: str) -> None:
    if max(values) > limit:
        rule, remedy = f"must be at most {limit}, the {what} that were started", "start more, or reduce it"
        raise InvalidInput.of(flag, rule, value=max(values), remedy=remedy)
