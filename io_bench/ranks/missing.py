"""Which ranks have not come, in words: by rank, and by node where that is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from io_bench.ranks.slurm import nodes_of_tasks


def listed(ranks: Iterable[int], node_of: Callable[[int], str]) -> str:
    """Ranks in order, those of a node together; `node_of` says "" where the node is not known.

    >>> listed([9, 1, 2, 3, 8], lambda rank: "n2" if rank > 7 else "n1")
    'ranks 1 to 3 on n1; ranks 8 and 9 on n2'
    >>> listed([5], lambda rank: "")
    'rank 5'
    """
    by_node: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        by_node.setdefault(node_of(rank), []).append(rank)
    return "; ".join(_of_node(found, node) for node, found in by_node.items())


def _of_node(ranks: Sequence[int], node: str) -> str:
    texts = [f"{first}" if first == last else f"{first} to {last}" for first, last in _spans(ranks)]
    if len(ranks) == 2:
        texts = [str(rank) for rank in ranks]
    together = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {together}{f' on {node}' if node else ''}"


def _spans(ranks: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of successive numbers.

    >>> list(_spans([1, 2, 3, 8]))
    [(1, 3), (8, 8)]
    """
    first = last = ranks[0]
    for rank in ranks[1:]:
        if rank != last + 1:
            yield first, last
            first = rank
        last = rank
    yield first, last


def node_by_launcher(rank: int, environment: Mapping[str, str]) -> str:
    """The node on which the launcher should have started a rank; "" where it does not say.

    >>> node_by_launcher(9, {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "2"})
    'node 1 of torchrun'
    """
    num_ranks, per_node, num_nodes = (
        environment.get(name, "") for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE")
    )
    # Other nodes than this one may have another number of ranks: then nobody says which.
    if all(text.isdecimal() for text in (num_ranks, per_node, num_nodes)):
        is_uniform = int(per_node) * int(num_nodes) == int(num_ranks)
        return f"node {rank // int(per_node)} of torchrun" if is_uniform else ""
    of_tasks = nodes_of_tasks(environment)
    return of_tasks[rank] if rank < len(of_tasks) else ""
