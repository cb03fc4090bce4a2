"""The configurations of a scan: every combination of the values of its flags, in random order."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator

from io_bench.engines import ENGINES, EngineOptions
from io_bench.measure.configuration import Configuration
from io_bench.options import (
    DEFAULT_BYTES_PER_RANK,
    MAX_DEFAULT_WRITERS,
    MIN_BLOCK_BYTES,
    MIN_BYTES_PER_RANK,
    ScanOptions,
)
from io_bench.payload.device import Device
from io_bench.payload.inventory import inventory_of
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target.address import is_url
from sizing.errors import InvalidInput
from sizing.units import parse_bytes

MAX_CONFIGURATIONS = 10_000
"""A day of ten seconds each: more is a typing error."""


def configurations_of(options: ScanOptions, group: ProcessGroup, *, seed: int) -> list[Configuration]:
    """Combine all values once, shuffled by the seed, so that drift of the storage does not look like a trend.

    Raises InvalidInput for more nodes or writers than were started.
    """
    max_writers = min(group.ranks_per_node.values())
    nodes = options.num_nodes or tuple(doublings(len(group.nodes)))
    writers = options.writers_per_node or tuple(doublings(min(max_writers, MAX_DEFAULT_WRITERS)))
    _check_max("--nodes", nodes, len(group.nodes), "nodes")
    _check_max("--writers", writers, max_writers, "ranks on each node")
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
    configurations = list(dict.fromkeys(_make_configuration(*each, in_parts=in_parts) for each in combinations))
    if len(configurations) > MAX_CONFIGURATIONS:
        rule, value = f"must have at most {MAX_CONFIGURATIONS:,} configurations", f"{len(configurations):,}"
        raise InvalidInput.of("the scan", rule, value=value, remedy="give fewer values per flag")
    random.Random(seed).shuffle(configurations)  # noqa: S311 - an order, not a secret
    return configurations


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


def _make_configuration(
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
    """Make a configuration without what its engine ignores, so that nothing is measured twice.

    Args: `stripes`, count and bytes; `in_parts`, where the target moves files in parts of its own, of that size and
    number, whatever the engine.
    """
    heeds_blocks, heeds_threads = (True, True) if in_parts else _heeds(engine)
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
def _heeds(engine: str) -> tuple[bool, bool]:
    """Whether an engine takes the size of its requests, and the number of its threads, from the options."""
    one, other = (
        ENGINES[engine](EngineOptions(block_bytes=number * MIN_BLOCK_BYTES, num_threads=number)).plan(
            inventory_of(MIN_BYTES_PER_RANK), rank=0, device=Device("cpu")
        )
        for number in (1, 2)
    )
    return one.block_bytes != other.block_bytes, one.num_threads != other.num_threads


def _check_max(flag: str, values: tuple[int, ...], limit: int, what: str) -> None:
    """Raise InvalidInput where a flag asks for more than were started."""
    if max(values) > limit:
        rule, remedy = f"must be at most {limit}, the {what} that were started", "start more, or reduce it"
        raise InvalidInput.of(flag, rule, value=max(values), remedy=remedy)
