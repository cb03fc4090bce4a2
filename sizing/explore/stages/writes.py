"""Who writes what where stages stand on nodes of several kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sizing.cluster import ResolvedKind
from sizing.layout import LaidOut, Parallelism
from sizing.layout.placement import ranks_of_numbers
from sizing.layout.ranks import numbers_in_stage
from sizing.storage.storage import Storage, resolve_storage


class Written(NamedTuple):
    """What the nodes of a kind write in a save."""

    num_bytes: int
    num_nodes: int
    max_node_bytes: int
    node_bytes_per_second: float | None

    @property
    def seconds(self) -> float | None:
        """Of the busiest node alone: its bytes over its rate. Source: definition."""
        rate = self.node_bytes_per_second
        return None if rate is None else self.max_node_bytes / rate


def written_by_kind(
    laid_out: LaidOut,
    parallelism: Parallelism,
    *,
    kinds: Sequence[ResolvedKind],
    kind_of_stage: Sequence[int],
    storage: Storage | None,
) -> list[Written]:
    """Bytes that the nodes of each kind write; the stages of a kind fill its nodes in their order."""
    of_stages = _bytes_of_ranks(laid_out, parallelism)
    by_kind = [
        np.concatenate([of_stages[stage] for stage, on in enumerate(kind_of_stage) if on == number])
        for number in range(len(kinds))
    ]
    return [_written(ranks, kind, storage) for ranks, kind in zip(by_kind, kinds, strict=True)]


def _bytes_of_ranks(laid_out: LaidOut, parallelism: Parallelism) -> list[npt.NDArray[np.int64]]:
    """Bytes that each rank of each stage writes, in the order in which ranks stand on nodes."""
    found: defaultdict[int, npt.NDArray[np.int64]]
    found = defaultdict(lambda: np.zeros(parallelism.ranks_per_stage, np.int64))
    for writer in laid_out.writers:
        ranks = ranks_of_numbers(parallelism, numbers_in_stage(writer))
        for stage in writer.span.stages:
            np.add.at(found[stage], ranks, sum(file.num_bytes for file in writer.files))
    return [found[stage] for stage in range(parallelism.pipeline)]


def _written(ranks: npt.NDArray[np.int64], kind: ResolvedKind, storage: Storage | None) -> Written:
    nodes = np.add.reduceat(ranks, np.arange(0, len(ranks), kind.node.spec.gpus_per_node))
    return Written(int(ranks.sum()), int((nodes > 0).sum()), int(nodes.max()), node_rate(kind, storage))


def node_rate(kind: ResolvedKind, storage: Storage | None) -> float | None:
    """What one node of a kind can write: its adapters for storage, or what the storage takes of a node, the lower.

    Source: definition.

    >>> from sizing.cluster.cluster import Cluster, resolve_kinds
    >>> nodes = [{"count": 1, "node": "dgx-a100", "storage_nics": "2 x 100 Gb/s"}]
    >>> [node_rate(kind, None) for kind in resolve_kinds(Cluster(nodes=nodes))]
    [25000000000.0]
    """
    given, resolved = kind.node.storage_nics, resolve_storage(storage)
    profile = resolved.profile if resolved else None
    rates = [given.node_bytes_per_second if given else None, profile.node_write_bytes_per_second if profile else None]
    known = [rate for rate in rates if rate is not None]
    return min(known) if known else None


class WriteTime(NamedTuple):
    """How long a save writes, and what bounds it; None where no rate is known."""

    seconds: float | None
    limit: str | None


def write_time(
    written: Sequence[Written], kinds: Sequence[ResolvedKind], *, total_bytes: int, storage: Storage | None
) -> WriteTime:
    """The longest of what the busiest node of each kind and the file system take: max_k (B_k/r_k), B/R.

    B_k bytes of the busiest node of kind k at rate r_k, B of the checkpoint at the file system's R.
    Source: definition; ranks wait for the last of them.
    """
    resolved = resolve_storage(storage)
    rate = resolved.profile.write_bytes_per_second if resolved and resolved.profile else None
    limits = {kind.name: each.seconds for kind, each in zip(kinds, written, strict=True)}
    limits["file-system"] = None if rate is None else total_bytes / rate
    known = {name: seconds for name, seconds in limits.items() if seconds is not None}
    if not known:
        return WriteTime(None, None)
    limit = max(known, key=lambda name: known[name])
    return WriteTime(known[limit], limit)
