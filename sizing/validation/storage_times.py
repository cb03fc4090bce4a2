"""Published times of saves and restores beside what the model says from what is published of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.published import published
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.storage.limits import transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.storage.terms import Demand
from sizing.units import parse_bytes, rate_text
from sizing.validation.comparison import Comparison, Source

_MLPERF = Source("observation", "MLPerf Storage v3.0 results: seconds, from the rate printed for the same run")
_MLPERF_SECONDS: dict[Direction, str] = {"write": "write_seconds", "read": "read_seconds"}
"""The fields of a published row."""
_SAVES = Source("observation", "Save times of BLOOM and Megatron-DeepSpeed")
_LOCKWOOD = Source("arithmetic", "Lockwood 2025: three asynchronous tiers")
_KNOWN_MISSES = {("Everpure FBEXA, 32 hosts", "read"): "the printed rate is a mean of rates, not bytes over seconds"}

_WITHIN = 0.05
"""Published seconds and rates are rounded to two or three digits, and rates are means over runs."""


def storage_times() -> Iterator[Comparison]:
    """Every published time of a save or a restore."""
    yield from _mlperf_times()
    yield from _save_times()
    yield from _drain_rate()


def _mlperf_times() -> Iterator[Comparison]:
    workloads = published("mlperf_storage_checkpoint")["workloads"]
    for row in published("storage_guidance")["mlperf_storage_v3_results"]["rows"]:
        for direction in DIRECTIONS:
            if _MLPERF_SECONDS[direction] in row:
                yield _mlperf_time(row, direction, workloads.get(row["model"]))


def _mlperf_time(row: dict[str, Any], direction: Direction, workload: dict[str, Any] | None) -> Comparison:
    fact, measured = f"{row['system']}: {direction} {row['model']}, seconds", row[_MLPERF_SECONDS[direction]]
    if workload is None:
        missing = "the layers of this workload, and so its bytes, are not published with it"
        return _MLPERF.not_compared(fact, measured, because=missing)
    total_bytes = workload["total_gib"] * parse_bytes("1 GiB")
    seconds = _seconds(total_bytes, bytes_per_second=row[direction] * parse_bytes("1 GiB"), direction=direction)
    miss = _KNOWN_MISSES.get((row["system"], direction), "")
    return _MLPERF.compared(fact, seconds, measured, within=_WITHIN, miss=miss)


def _save_times() -> Iterator[Comparison]:
    """What is known of these saves: bytes, writers or nodes, seconds. Their storage is not published."""
    facts = published("published_checkpoints")
    rows, gib = facts["measured_save_times"], parse_bytes("1 GiB")
    known_bytes = {"bloom-176b": 2298.0 * gib, "megatron-deepspeed-181b": 256 * (1.4 + 8.0) * gib}
    for row in rows:
        if row["model"] in known_bytes:
            needed = rate_text(known_bytes[row["model"]] / row["seconds"])
            reason = f"the storage is not published; the time takes {needed}"
            yield _SAVES.not_compared(f"{row['model']} saved, seconds", row["seconds"], because=reason)
    small, large = (row for row in rows if row["model"] == "52b")
    fact = f"52b saved on {large['nodes']} nodes, seconds, as on {small['nodes']}: more replicas add no bytes"
    yield _SAVES.compared(fact, small["seconds"], large["seconds"], within=_WITHIN)


def _drain_rate() -> Iterator[Comparison]:
    """The least rate of the shared store, which drains one checkpoint from the host's memory before the next begins."""
    tiers = published("storage_guidance")["three_async_tiers"]
    report = answer(
        scenario_from(
            {
                "model": {"num_parameters": 10**9},
                "checkpoint": {
                    "mode": "async",
                    "observed_bytes": tiers["checkpoint_bytes"],
                    "interval_seconds": 600,
                    "tiers": [{"kind": "host-memory", "interval_seconds": 60}],
                },
                "training": {"framework": "fsdp2"},
                "targets": {"max_overhead_fraction": 1},
            }
        )
    )
    rate = report.required.write_bytes_per_second or 0.0
    yield _LOCKWOOD.compared("shared store drained every 600 s, B/s", rate, 0.83e9, within=0.01)


def _seconds(total_bytes: float, *, bytes_per_second: float, direction: Direction) -> float:
    is_write = direction == "write"
    profile = StorageProfile(
        write_bytes_per_second=bytes_per_second if is_write else None,
        read_bytes_per_second=None if is_write else bytes_per_second,
    )
    found = transfer(profile, [Demand(total_bytes, 1, 1, 1)], direction=direction)
    assert found is not None  # noqa: S101 - the profile has the rate
    return float(found.seconds)
