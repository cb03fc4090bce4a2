"""Memory that real runs measured on their GPUs, against what is counted tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.report import answer
from sizing.training import GpuMemory
from sizing.units import parse_bytes
from sizing.validation.comparison import Comparison, Source
from sizing.validation.measured_runs import (
    Row,
    case_name,
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
    """Allocated bytes within 5 %; reserved ones inside the range that fragments leave open."""
    for row in simumax_rows():
        found = _memory(simumax_scenario(row))
        fact = f"GiB allocated: {case_name(row)}"
        yield _ALLOCATED.compared(fact, _gib(found), row["measured_peak_allocated_gib"], within=ALLOCATED_WITHIN)
    for row in torchtitan_rows():
        yield _reserved(row)


_RESERVED_FIELDS = ("peak_memory_gib", "memory_gib", "peak_reserved_memory_gib")


def _reserved(row: Row) -> Comparison:
    """Allocated beside reserved: it agrees where the reserved is in the stated range, so never below the allocated."""
    said: float = next(row[name] for name in _RESERVED_FIELDS if name in row)
    fact = f"GiB reserved: {run_name(row)}"
    if row["linear_precision"].startswith("nvfp4"):
        because = "what its 4-bit matrix products keep for the backward pass is not counted"
        return _RESERVED.not_compared(fact, said, because=because)
    found = _memory(torchtitan_scenario(row))
    low, high = (each / _GIB for each in found.reserved_bytes or (0, 0))
    within = (1 - low / high) if low <= said else 0.0
    return _RESERVED.compared(
        fact, low, said, within=within, note=f"reserved may be {low:.1f} to {high:.1f} GiB{_derived(row)}"
    )


def _derived(row: Row) -> str:
    is_derived = "sequence_length_tokens_derived" in row
    return "; the table leaves out the sequence length, which is that of the configuration" if is_derived else ""


def run_name(row: Row) -> str:
    """A run of torchtitan in words."""
    degrees = " ".join(f"{name} {row[name]}" for name in ("tensor", "pipeline", "context") if row.get(name, 1) > 1)
    precision = row["linear_precision"].split()[0]
    tokens = row.get("sequence_length_tokens") or row.get("sequence_length_tokens_derived") or "8192"
    compiled = " compiled" if row["torch_compile"] else ""
    asynchronous = " async" if row.get("async_tensor_parallel") else ""
    return f"{row['model']} {row['num_gpus']} GPUs {degrees} x {tokens} {precision}{compiled}{asynchronous}".replace(
        "  ", " "
    )


def _memory(document: Row) -> GpuMemory:
    return answer(document).training


def _gib(memory: GpuMemory) -> float:
    return float((memory.total_bytes or 0) / _GIB)
