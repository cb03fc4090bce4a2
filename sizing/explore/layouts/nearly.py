"""Layouts that nearly fit and would train faster, and the smallest change with which they fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from sizing.explore.layouts.layouts_report import NearlyFitting
from sizing.explore.layouts.offloads import offload_text
from sizing.explore.layouts.search import Weighed

MAX_MISSING_FRACTION = 0.25
"""Of the memory without the headroom: what lacks more is another layout."""
MAX_SHOWN = 3
"""They are read beside the layouts that fit, which were asked for."""
_DEGREES = (
    "tensor",
    "pipeline",
    "virtual_pipeline",
    "context",
    "data",
    "expert",
    "expert_tensor",
    "shard_group",
    "zero_stage",
)


def nearly_fitting(fitting: Sequence[Weighed], tight: Sequence[Weighed], *, room_bytes: int) -> Iterator[NearlyFitting]:
    """The fastest candidates that lack a little memory and would be faster than all that fit."""
    best = min((each.step_seconds or math.inf for each in fitting), default=math.inf)
    near = [
        each
        for each in tight
        if each.gpu_bytes <= room_bytes * (1 + MAX_MISSING_FRACTION) and (each.step_seconds or math.inf) < best
    ]
    once = {(str(each.parallelism), each.micro_batch_size, each.gpu_bytes): each for each in reversed(near)}
    for each in sorted(once.values(), key=lambda weighed: weighed.step_seconds or math.inf)[:MAX_SHOWN]:
        nearest = min(fitting, key=lambda other: (_distance(each, other), other.step_seconds or math.inf), default=None)
        yield NearlyFitting(
            parallelism=each.parallelism,
            micro_batch_size=each.micro_batch_size,
            recomputation=each.recomputation,
            gpu_bytes=each.gpu_bytes,
            missing_bytes=each.gpu_bytes - room_bytes,
            step_seconds=each.step_seconds,
            change="other nodes: no candidate fits" if nearest is None else _change(each, nearest),
        )


def _settings(weighed: Weighed) -> dict[str, Any]:
    degrees = {name: getattr(weighed.parallelism, name) for name in _DEGREES}
    return degrees | {
        "micro-batch": weighed.micro_batch_size,
        "recomputation": weighed.recomputation_text,
        "offload": offload_text(weighed.offload),
    }


def _distance(one: Weighed, other: Weighed) -> float:
    """Doublings and halvings of degrees and microbatch; another recomputation counts as one."""
    pairs = zip(_settings(one).values(), _settings(other).values(), strict=True)
    return sum(_steps(before, after) for before, after in pairs if before != after)


def _steps(before: Any, after: Any) -> float:
    if isinstance(before, int) and isinstance(after, int) and before and after:
        return abs(math.log2(after / before))
    return 1.0


def _change(one: Weighed, other: Weighed) -> str:
    before, after = _settings(one), _settings(other)
    changes = (name for name in before if before[name] != after[name])
    return ", ".join(f"{name.replace('_', ' ')} {after[name]} in place of {before[name]}" for name in changes)
