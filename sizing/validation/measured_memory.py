"""Comparisons of GPU memory that real runs measured with the sum of all tensors."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.units import parse_bytes
from sizing.validation.comparison import Comparison, Source
from sizing.validation.measured_runs import (
    Row,
    case_name,
    predicted_memory,
    run_name,
    simumax_rows,
    simumax_scenario,
    torchtitan_rows,
    torchtitan_scenario,
)

_GIB = parse_bytes("1 GiB")

ALLOCATED_WITHIN = 0.05
"""What tensors take is counted, not fitted: more than 5 % off, a tensor is missing."""

_ALLOCATED = Source("observation", "SimuMax on B200 with Megatron-LM: max allocated on any rank")
_RESERVED = Source(
    "observation", "torchtitan on H100, H200 and Blackwell: reserved, against allocated; the rest is fragments"
)


def measured_memory() -> Iterator[Comparison]:
    """Compare allocated bytes within 5 %, and reserved bytes with the range that fragments leave open."""
    for row in simumax_rows():
        predicted = (predicted_memory(simumax_scenario(row)).total_bytes or 0) / _GIB
        fact, measured = f"GiB allocated: {case_name(row)}", row["measured_peak_allocated_gib"]
        yield _ALLOCATED.compare(fact, predicted, measured, within=ALLOCATED_WITHIN)
    for row in torchtitan_rows():
        yield _compare_reserved(row)


_RESERVED_FIELDS = ("peak_memory_gib", "memory_gib", "peak_reserved_memory_gib")


def _compare_reserved(row: Row) -> Comparison:
    """Compare reserved bytes: they agree within the predicted range, so never below the allocated ones."""
    measured: float = next(row[name] for name in _RESERVED_FIELDS if name in row)
    fact = f"GiB reserved: {run_name(row)}"
    if row["linear_precision"].startswith("nvfp4"):
        because = "what its 4-bit matrix products keep for the backward pass is not counted"
        return _RESERVED.list_unpredicted(fact, measured, because=because)
    memory = predicted_memory(torchtitan_scenario(row))
    low, high = (each / _GIB for each in memory.reserved_bytes or (0, 0))
    within = (1 - low / high) if low <= measured else 0.0
    note = f"reserved may be {low:.1f} to {high:.1f} GiB"
    if "sequence_length_tokens_derived" in row:
        note += "; the table leaves out the sequence length, which is that of the configuration"
    return _RESERVED.compare(fact, low, measured, within=within, note=note)
