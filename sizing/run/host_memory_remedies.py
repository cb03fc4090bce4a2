"""Warnings about host memory that is too small, with the changes of the checkpoint that are enough, each tried."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sizing.errors import InvalidInput
from sizing.run.checkpoint import MEMORY_KINDS, Checkpoint
from sizing.run.host_memory import BUFFER_FACTOR, HostMemory
from sizing.run.read_plan import RESTORE_STRATEGIES
from sizing.units import decimal_bytes_text

MemoryWith = Callable[[Mapping[str, Any]], HostMemory]
"""Host memory with some fields of `checkpoint` set anew. Raises InvalidInput where they do not go together."""

_MIN_STAGING_BYTES = 1e6
"""Smallest staging buffer that is worth naming."""
_DIGITS = 4
"""Digits of sizes as they are written, to which the largest buffer that fits is rounded down."""


def host_memory_warnings(
    memory: HostMemory, *, checkpoint: Checkpoint, formats: Sequence[str], memory_with: MemoryWith
) -> Iterator[str]:
    """What a reader must know before believing that the state can be gathered, staged or read back.

    `formats` are the names of those of the framework.
    """
    if memory.node_bytes is None or memory.usable_bytes is None:
        return
    kept = (
        f"{decimal_bytes_text(memory.offloaded_bytes)} of it for training.offload, " if memory.offloaded_bytes else ""
    )
    has = f"a node has {decimal_bytes_text(memory.node_bytes)}, {decimal_bytes_text(memory.usable_bytes)} without what "
    has += "the system keeps"

    def keeps_saves(other: HostMemory) -> bool:
        return holds_saves(other) or not holds_saves(memory)

    def keeps_restore(other: HostMemory) -> bool:
        return holds_restore(other) or not holds_restore(memory)

    by_format: dict[str, Mapping[str, Any]] = {f"use checkpoint.format {name}": {"format": name} for name in formats}
    if not holds_saves(memory):
        needs = f"A save needs {decimal_bytes_text(memory.needed_bytes)} of host memory per node, {kept}"
        if memory.fits:
            needs += f"up to {decimal_bytes_text(memory.needed_high_bytes)} with buffers of pickling and page cache, "
            has += ": it may not fit"
        changes = saving_changes(memory, checkpoint, memory_with) | by_format
        remedy = _name_what_fits(changes, memory_with, lambda other: holds_saves(other) and keeps_restore(other))
        if not memory.saving_bytes:
            remedy = "Offload less (training.offload), or use more nodes"
        yield f"{needs}and {has}. {remedy}"
    if memory.restore_bytes and not holds_restore(memory):
        by_restore: dict[str, Mapping[str, Any]] = {
            f"set checkpoint.restore {each}": {"restore": each} for each in RESTORE_STRATEGIES
        }
        changes = by_restore | by_format
        remedy = _name_what_fits(changes, memory_with, lambda other: holds_restore(other) and keeps_saves(other))
        needs = f"A restore needs {decimal_bytes_text(memory.restoring_bytes)} of host memory per node, {kept}"
        yield f"{needs}and {has}. {remedy}"


def holds_saves(memory: HostMemory) -> bool:
    """Tell whether a node holds what saves need, with buffers; the state that stays there alone needs none."""
    with_buffers = memory.needed_high_bytes if memory.saving_bytes else memory.needed_bytes
    return memory.usable_bytes is None or with_buffers <= memory.usable_bytes


def holds_restore(memory: HostMemory) -> bool:
    """Tell whether a node holds what a restore needs, as far as that is known."""
    return memory.fits_restore is not False


def saving_changes(memory: HostMemory, checkpoint: Checkpoint, memory_with: MemoryWith) -> dict[str, Mapping[str, Any]]:
    """Changes of a checkpoint that may lower what saves keep in host memory, in words."""
    changes: dict[str, Mapping[str, Any]] = {}
    num_writers = memory_with({"staging_bytes": 1}).staged_bytes  # one byte for each
    if checkpoint.mode == "async" and num_writers:
        beside = memory.needed_bytes - memory.staged_bytes
        room = ((memory.usable_bytes or 0) / BUFFER_FACTOR - beside) / num_writers
        if room >= _MIN_STAGING_BYTES:
            step = 10 ** (math.floor(math.log10(room)) - _DIGITS + 1)
            staging = math.floor(room / step) * step
            changes[f"give checkpoint.staging_bytes {decimal_bytes_text(staging)} or less"] = {"staging_bytes": staging}
    if checkpoint.mode == "async":
        changes["set checkpoint.mode sync"] = {"mode": "sync"}
    if memory.tier_bytes:
        in_memory = [tier.kind in MEMORY_KINDS for tier in checkpoint.tiers]
        kept_once = [
            tier.model_copy(update={"keep": 1}) if is_memory else tier
            for tier, is_memory in zip(checkpoint.tiers, in_memory, strict=True)
        ]
        changes["give the tiers in memory keep 1"] = {"tiers": tuple(kept_once)}
        others = [tier for tier, is_memory in zip(checkpoint.tiers, in_memory, strict=True) if not is_memory]
        changes["remove the tiers in memory"] = {"tiers": tuple(others)}
    if memory.delta_base_bytes and checkpoint.reduction is not None:
        changes["remove checkpoint.reduction.delta"] = {
            "reduction": checkpoint.reduction.model_copy(update={"delta": None})
        }
    return changes


def _name_what_fits(
    changes: Mapping[str, Mapping[str, Any]], memory_with: MemoryWith, fits: Callable[[HostMemory], bool]
) -> str:
    """Name the changes with each of which it fits."""
    ways = []
    for words, fields in changes.items():
        with contextlib.suppress(InvalidInput):
            if fits(memory_with(fields)):
                ways.append(words)
    sentence = ", or ".join(ways) or "use nodes with more host memory"
    return sentence[0].upper() + sentence[1:]
