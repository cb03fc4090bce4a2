"""Restoring into another layout than the one that saved: whether a format can, and what it reads more for it."""

from __future__ import annotations

import math
from typing import NamedTuple

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.formats import FORMATS, FormatName

_DEGREES = ("tensor", "pipeline", "expert", "expert_tensor_degree")
_COPYING_DEGREES = ("data", "context", "zero_stage", "shard_group")


class Amplification(NamedTuple):
    """Bytes read over bytes needed, of dense tensors and of routed experts."""

    dense: float = 1
    expert: float = 1


def overlapping_shards(num_saved: int, num_restored: int) -> int:
    """Pairs of saved and restored shards that share rows: n + m - gcd(n, m).

    Each restored shard reads every saved one that it overlaps, whole. Both cut the same rows into equal runs; an
    inner border of one is one of the other gcd(n, m) - 1 times.
    Source: counting; torch.distributed.checkpoint, filesystem.py, read_data, which loads a saved shard and narrows it.

    >>> overlapping_shards(8, 8), overlapping_shards(8, 4), overlapping_shards(8, 6)
    (8, 8, 12)
    """
    return num_saved + num_restored - math.gcd(num_saved, num_restored)


def amplification(name: FormatName, saved: Parallelism, restored: Parallelism) -> Amplification:
    """What restoring `saved` into `restored` reads over what it needs: overlapping shards / saved shards.

    A distributed checkpoint is cut by the tensor degree, FSDP's by its shard group; stages and replicas cut nothing.
    """
    if name == "fsdp-sharded":
        factor = _amplification(saved.shard_ranks, restored.shard_ranks)
        return Amplification(factor, factor)
    if name == "torch-dist":
        return Amplification(
            _amplification(saved.tensor, restored.tensor),
            _amplification(saved.expert_tensor_degree, restored.expert_tensor_degree),
        )
    return Amplification()


def check_resharding(name: FormatName, saved: Parallelism, restored: Parallelism) -> None:
    """Refuse another layout that a format's files cannot be read into.

    Raises InvalidInput naming the first degree that differs.
    """
    able = FORMATS[name].reshards
    fixed = {"everything": (), "replicas": _DEGREES, "nothing": (*_DEGREES, *_COPYING_DEGREES)}[able]
    for degree in fixed:
        before, after = getattr(saved, degree), getattr(restored, degree)
        if before != after:
            field = degree.removesuffix("_degree")
            raise InvalidInput.of(
                f"checkpoint.restore_parallelism.{field}",
                f"must equal parallelism.{field} {before} with format {name}, whose files are cut by it",
                value=after,
                remedy="use torch-dist or fsdp-sharded, or convert the checkpoint first",
            )


def _amplification(num_saved: int, num_restored: int) -> float:
    whole, rest = divmod(overlapping_shards(num_saved, num_restored), num_saved)
    return whole + rest / num_saved if rest else whole
