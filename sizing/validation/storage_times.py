"""Comparisons of published times of saves and restores with predictions from what is published about them."""

from __future__ import annotations

from collections.abc import Iterator

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
_GIB = parse_bytes("1 GiB")
_KNOWN_MISSES = {("Everpure FBEXA, 32 hosts", "read"): "the printed rate is a mean of rates, not bytes over seconds"}

_WITHIN = 0.05
"""Published seconds and rates are rounded to two or three digits, and rates are means over runs."""


def storage_times() -> Iterator[Comparison]:
    """Compare every published time of a save or a restore."""
    yield from _mlperf_times()
    yield from _save_times()
    yield from _drain_rate()


def _mlperf_times() -> Iterator[Comparison]:
    workloads = published("mlperf_storage_checkpoint")["workloads"]
    for row in published("storage_guidance")["mlperf_storage_v3_results"]["rows"]:
        for direction in DIRECTIONS:
            if _MLPERF_SECONDS[direction] not in row:
                continue
            fact, measured = f"{row['system']}: {direction} {row['model']}, seconds", row[_MLPERF_SECONDS[direction]]
            if row["model"] not in workloads:
                missing = "the layers of this workload, and so its bytes, are not published with it"
                yield _MLPERF.list_unpredicted(fact, measured, because=missing)
                continue
            profile = StorageProfile.of().with_rates(direction, file_system_bytes_per_second=row[direction] * _GIB)
            demand = Demand(workloads[row["model"]]["total_gib"] * _GIB, 1, 1, 1)
            time = transfer(profile, [demand], direction=direction)
            assert time is not None  # noqa: S101 - the profile has the rate
            miss = _KNOWN_MISSES.get((row["system"], direction), "")
            yield _MLPERF.compare(fact, float(time.seconds), measured, within=_WITHIN, miss=miss)


def _save_times() -> Iterator[Comparison]:
    """Compare what is known of these saves: bytes, writers or nodes, seconds. Their storage is not published."""
    facts = published("published_checkpoints")
    rows = facts["measured_save_times"]
    known_bytes = {"bloom-176b": 2298.0 * _GIB, "megatron-deepspeed-181b": 256 * (1.4 + 8.0) * _GIB}
    for row in rows:
        if row["model"] in known_bytes:
            rate = rate_text(known_bytes[row["model"]] / row["seconds"])
            reason = f"the storage is not published; the time takes {rate}"
            yield _SAVES.list_unpredicted(f"{row['model']} saved, seconds", row["seconds"], because=reason)
    small, large = (row for row in rows if row["model"] == "52b")
    fact = f"52b saved on {large['nodes']} nodes, seconds, as on {small['nodes']}: more replicas add no bytes"
    yield _SAVES.compare(fact, small["seconds"], large["seconds"], within=_WITHIN)


def _drain_rate() -> Iterator[Comparison]:
    """Compare the least rate of the shared store, which drains one checkpoint before the next begins."""
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
    yield _LOCKWOOD.compare("shared store drained every 600 s, B/s", rate, 0.83e9, within=0.01)
