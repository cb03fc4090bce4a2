"""Command lines of further runs that belong to those that were measured: same target, engine, block size and sizes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from sizing.storage.calibration.fit_data import RunMeasurement
from sizing.storage.measurement import SHORT_SECONDS, Measurement
from sizing.units import parse_bytes

_SHARED_FLAGS = {
    "--engine": "engine",
    "--block-size": "block_bytes",
    "--stripe-count": "stripe_count",
    "--stripe-size": "stripe_bytes",
}
"""Flags by the field of a measurement that holds their value: runs that differ in one are not fitted together."""


def shared_flags(rows: Sequence[RunMeasurement]) -> str:
    """Write the flags that further runs share with the rows: those in which all agree; DIR where targets differ."""
    targets = {row.target for row in rows}
    target = targets.pop() if len(targets) == 1 else ""
    words = ["--target", shlex.quote(target) if target else "DIR"]
    for name, field in _SHARED_FLAGS.items():
        values = {getattr(row.measurement, field) for row in rows}
        if len(values) == 1 and (value := values.pop()) is not None:
            words += [name, size_text(value) if field.endswith("_bytes") else str(value)]
    return " ".join(words)


def launch_text(verb: str, *, num_nodes: int, ranks_per_node: int) -> str:
    """Write the beginning of a command line with launcher and verb, to type on each node.

    >>> launch_text("run", num_nodes=2, ranks_per_node=8)[:60]
    'torchrun --nnodes 2 --node-rank NODE_RANK --nproc-per-node 8'
    >>> launch_text("run", num_nodes=1, ranks_per_node=8), launch_text("scan", num_nodes=1, ranks_per_node=8)
    ('ckpt-bench run --ranks 8', 'ckpt-bench scan')
    """
    if num_nodes > 1:
        ranks = f"--nproc-per-node {ranks_per_node} --master-addr FIRST_NODE"
        return f"torchrun --nnodes {num_nodes} --node-rank NODE_RANK {ranks} -m io_bench {verb}"
    return f"ckpt-bench {verb}" + (f" --ranks {ranks_per_node}" if verb == "run" and ranks_per_node > 1 else "")


def placeholders_text(num_nodes: int) -> str:
    """Say what to put in place of the names in capitals of a command line for several nodes; empty for one.

    >>> placeholders_text(2)
    'on each of 2 nodes, with its number from 0 as NODE_RANK and the name of node 0 as FIRST_NODE'
    """
    if num_nodes == 1:
        return ""
    return f"on each of {num_nodes} nodes, with its number from 0 as NODE_RANK and the name of node 0 as FIRST_NODE"


def payload_bytes(rows: Sequence[RunMeasurement], file_bytes: int) -> int:
    """Compute the payload with which a rank writes so many bytes, as headers and padding were in the rows.

    Those of the nearest size count, in proportion. Bytes of files where the rows do not state their payload.
    """
    sizes = {row.measurement.bytes_per_rank: row.measurement.payload_bytes_per_rank for row in rows}
    known = [(of_files, payload) for of_files, payload in sizes.items() if payload is not None]
    if not known:
        return file_bytes
    of_files, payload = min(known, key=lambda pair: abs(math.log(pair[0] / file_bytes)))
    # Ranks of unequal files have a mean that is rounded.
    return payload if abs(of_files - file_bytes) <= 1 else round(payload * file_bytes / of_files)


def size_text(num_bytes: int) -> str:
    """Write a number of bytes exactly, with a unit where it is a whole number of them.

    >>> size_text(32 * 2**20), size_text(3 * 10**9), size_text(35_000_001)
    ('32MiB', '3GB', '35000001')
    """
    units = {name: parse_bytes(f"1{name}") for name in ("GiB", "GB", "MiB", "MB")}
    return next((f"{num_bytes // unit}{name}" for name, unit in units.items() if num_bytes % unit == 0), str(num_bytes))


def long_enough_bytes(rows: Sequence[RunMeasurement]) -> int:
    """Compute a payload that takes 5 s or more at the highest rate of a rank: the largest measured, or a multiple.

    Shorter writes and restores are warned of.
    """
    found: list[Measurement] = [row.measurement for row in rows]
    largest = max(found, key=lambda each: each.bytes_per_rank)
    fastest = max(each.bytes_per_rank / row.seconds for each, row in zip(found, rows, strict=True))
    times = max(1, math.ceil(SHORT_SECONDS * fastest / largest.bytes_per_rank))
    return times * payload_bytes(rows, largest.bytes_per_rank)
