from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from io_bench.commands.grid import configurations_of
from io_bench.measure.configuration import Configuration, ranks_of
from io_bench.options import ScanOptions
from io_bench.ranks.placement import Placement
from io_bench.ranks.process_group import ProcessGroup
from sizing.errors import InvalidInput


class Group:
    """As much of a group as a grid needs: who is where."""

    def __init__(self, *, num_nodes: int, ranks_per_node: int) -> None:
        nodes = [f"n{node}" for node in range(num_nodes) for _ in range(ranks_per_node)]
        self.placements = [
            Placement(rank, len(nodes), rank, node, "host", 1, "pid:[1]") for rank, node in enumerate(nodes)
        ]
        self.nodes = tuple(dict.fromkeys(nodes))
        self.ranks_per_node = Counter(nodes)


def grid(*flags: str, seed: int = 1, num_nodes: int = 1, ranks_per_node: int = 1) -> list[Configuration]:
    group = cast(ProcessGroup, Group(num_nodes=num_nodes, ranks_per_node=ranks_per_node))
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    return configurations_of(ScanOptions.of({"--target": "x"} | given), group, seed=seed)


def test_without_flags_writers_and_nodes_double_as_far_as_there_are_ranks() -> None:
    found = grid(num_nodes=3, ranks_per_node=20)
    assert {c.num_nodes for c in found} == {1, 2, 3}
    assert {c.writers_per_node for c in found} == {1, 2, 4, 8, 16}
    assert len(found) == 15


def test_every_combination_stands_once_without_what_its_engine_does_not_heed() -> None:
    found = grid(
        *("--engine", "torch-save,direct", "--block-size", "4MiB,8MiB"),
        *("--threads", "1,4", "--bytes-per-rank", "1MiB,2MiB"),
    )
    assert len(set(found)) == len(found) == 2 + 8
    assert {(c.block_bytes, c.threads_per_rank) for c in found if c.engine == "torch-save"} == {(None, None)}


def test_in_an_object_store_every_engine_heeds_the_size_and_number_of_parts() -> None:
    found = grid(*("--target", "s3://bucket/x", "--engine", "torch-save", "--block-size", "8MiB,16MiB"))
    assert {c.block_bytes for c in found} == {8 << 20, 16 << 20}


def test_the_seed_alone_decides_the_order() -> None:
    orders = [grid("--bytes-per-rank", "1MiB,2MiB", seed=seed, ranks_per_node=16) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert set(orders[0]) == set(orders[2])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--nodes", "1,4"), "at most 3, the nodes"),
        (("--writers", "3"), "at most 2, the ranks on each"),
        (("--writers", "0"), "least 1"),
    ],
)
def test_more_than_was_started_is_refused(flags: tuple[str, str], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        grid(*flags, num_nodes=3, ranks_per_node=2)


def test_the_first_ranks_of_the_first_nodes_write_node_by_node() -> None:
    placements = Group(num_nodes=3, ranks_per_node=4).placements
    two_by_two = Configuration(engine="direct", num_nodes=2, writers_per_node=2)
    assert ranks_of(placements, two_by_two) == (0, 1, 4, 5)
    assert ranks_of(placements, two_by_two, max_writers=3) == (0, 1, 4)
