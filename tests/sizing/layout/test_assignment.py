"""Whole items dealt to the least loaded rank: as fast as by hand it would be slow, and the same."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sizing.layout.assignment import MAX_KEPT_BYTES, assign, assign_to_empty, assigned_bytes, runs_of_equal
from sizing.layout.formats.fsdp_units import Parameter, shares_of
from sizing.layout.formats.megatron_shards import fused_name, num_whole_shards, whole_shards
from sizing.layout.holders import Shard
from sizing.state import StatePart


def by_hand(sizes: list[tuple[int, int]], loads: list[int]) -> list[list[int]]:
    """Items one by one, each to the rank with the fewest bytes, of several to the first."""
    held, counts = list(loads), []
    for num_bytes, count in sizes:
        counts.append([0] * len(loads))
        for _ in range(count):
            rank = min(range(len(held)), key=lambda each: (held[each], each))
            held[rank] += num_bytes
            counts[-1][rank] += 1
    return counts


kinds = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 25)), max_size=5)
loads_of_ranks = st.lists(st.integers(0, 200), min_size=1, max_size=12)


@given(sizes=kinds, loads=loads_of_ranks)
def test_a_deal_is_what_one_gets_item_by_item(sizes: list[tuple[int, int]], loads: list[int]) -> None:
    found, expected = assign(tuple(sizes), np.array(loads)), by_hand(sizes, loads)
    got = [found.counts[:, column - 1].tolist() if column else [0] * len(sizes) for column in found.columns]
    assert got == [[counts[rank] for counts in expected] for rank in range(len(loads))]
    of_ranks = [sum(size * n for (size, _), n in zip(sizes, counts, strict=True)) for counts in got]
    assert assigned_bytes(tuple(sizes), found).tolist() == of_ranks


def test_thousands_of_experts_cost_no_more_than_one() -> None:
    found = assign(((10, 10**9), (7, 3)), np.zeros(4, np.int64))
    assert found.counts.sum(axis=1).tolist()[0] > 0
    assert sum(found.counts[0, column - 1] for column in found.columns) == 10**9


def test_what_is_kept_is_bounded_by_bytes_and_not_by_entries() -> None:
    """60 questions of a million ranks each would keep 480 MB, and 256 entries 2 GB."""
    parameters = (Parameter(4 * 10, 4, (40,)),)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(60):
            assign_to_empty(((10, 5),), 10**6 - number)
            shares_of(parameters, 10**6 - number)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2.1 * MAX_KEPT_BYTES
    assert assign_to_empty(((10, 5),), 8) is assign_to_empty(((10, 5),), 8)


@given(
    columns=st.lists(st.integers(0, 2), min_size=1, max_size=20),
    edges=st.sets(st.integers(0, 30), max_size=3),
)
def test_runs_hold_equal_columns_and_all_ranks(columns: list[int], edges: set[int]) -> None:
    runs = runs_of_equal([np.array(columns)], edges)
    assert [rank for first, past in runs for rank in range(first, past)] == list(range(len(columns)))
    assert all(len(set(columns[first:past])) == 1 for first, past in runs)
    assert not any(first < edge < past for first, past in runs for edge in edges)


def test_what_is_fused_is_found_with_one_look_for_each_tensor() -> None:
    """5,000 tensors of a list took 9 s where each was held against all others."""
    shards = [Shard((8, 4), count=1, role="hidden-matrix", is_trained=True, name=f"w{number}") for number in range(300)]
    before = fused_name.cache_info()
    assert num_whole_shards(shards, (StatePart("weights", "bf16"),)) == len(shards)
    after = fused_name.cache_info()
    assert after.hits + after.misses - before.hits - before.misses == len(shards)


def test_queries_take_the_keys_and_values_that_follow_them_once() -> None:
    def shard(name: str, count: int = 2) -> Shard:
        return Shard((8, 4), count=count, role="hidden-matrix", is_trained=True, name=name)

    query, key_value = "attention.query", "attention.key_value"
    weights = (StatePart("weights", "bf16"),)
    together = [[each.name for each in one.shards] for one in whole_shards([shard(query), shard(key_value)], weights)]
    assert together == [[query, key_value]]
    assert num_whole_shards([shard(query), shard(query), shard(key_value)], weights) == 4
    assert num_whole_shards([shard(key_value), shard(query)], weights) == 4, "what stands before is another's"
    assert num_whole_shards([shard(query), shard(key_value, 3)], weights) == 5
