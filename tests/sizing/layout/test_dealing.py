"""Whole items dealt to the least loaded rank: as fast as by hand it would be slow, and the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sizing.layout.dealing import deal, dealt_bytes, runs_of_equal


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
    found, expected = deal(tuple(sizes), np.array(loads)), by_hand(sizes, loads)
    got = [found.counts[:, column - 1].tolist() if column else [0] * len(sizes) for column in found.columns]
    assert got == [[counts[rank] for counts in expected] for rank in range(len(loads))]
    of_ranks = [sum(size * n for (size, _), n in zip(sizes, counts, strict=True)) for counts in got]
    assert dealt_bytes(tuple(sizes), found).tolist() == of_ranks


def test_thousands_of_experts_cost_no_more_than_one() -> None:
    found = deal(((10, 10**9), (7, 3)), np.zeros(4, np.int64))
    assert found.counts.sum(axis=1).tolist()[0] > 0
    assert sum(found.counts[0, column - 1] for column in found.columns) == 10**9


@given(
    columns=st.lists(st.integers(0, 2), min_size=1, max_size=20),
    edges=st.sets(st.integers(0, 30), max_size=3),
)
def test_runs_hold_equal_columns_and_all_ranks(columns: list[int], edges: set[int]) -> None:
    runs = runs_of_equal([np.array(columns)], edges)
    assert [rank for first, past in runs for rank in range(first, past)] == list(range(len(columns)))
    assert all(len(set(columns[first:past])) == 1 for first, past in runs)
    assert not any(first < edge < past for first, past in runs for edge in edges)
