"""Scenarios whose first screens differ: targets met, missed and not known; tiers, prices, several short limits."""

from __future__ import annotations

from typing import Any

from sizing.scenario import REFERENCE_SCENARIO

LLAMA: dict[str, Any] = {
    "model": {"preset": "llama-3.1-70b"},
    "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
    "cluster": {"node": "dgx-h100"},
    "checkpoint": {"format": "torch-dist", "interval_seconds": "30min"},
    "reliability": {"mtbf_seconds": "8h", "detection_seconds": 0, "relaunch_seconds": 300},
}

SCENARIOS: dict[str, dict[str, Any]] = {
    "reference": REFERENCE_SCENARIO,
    "no storage": {"model": {"preset": "gpt2"}},
    "no failures": {
        "model": {"preset": "gpt3-175b"},
        "parallelism": {"tensor": 8, "pipeline": 8},
        "storage": {"profile": {"write_bytes_per_second": "10 GB/s"}},
    },
    "all missed": LLAMA
    | {
        "checkpoint": {"format": "torch-dist", "interval_seconds": "30s"},
        "storage": {
            "profile": {
                "write_bytes_per_second": "50 GB/s",
                "read_bytes_per_second": "50 GB/s",
                "planning_seconds_per_rank": 0,
            }
        },
        "reliability": {"mtbf_seconds": "5min", "detection_seconds": 0, "relaunch_seconds": 30},
        "targets": {"min_goodput_fraction": 0.9, "max_stall_seconds": 1, "recovery_seconds": 10},
    },
    "two short limits": LLAMA
    | {
        "storage": {
            "profile": {
                "write_bytes_per_second": "5 GB/s",
                "read_bytes_per_second": "10 GB/s",
                "node_write_bytes_per_second": "0.5 GB/s",
                "node_read_bytes_per_second": "0.5 GB/s",
            }
        },
        "targets": {"min_goodput_fraction": 0.93, "recovery_seconds": "6min", "max_stall_seconds": 60},
    },
    "tiers and prices": LLAMA
    | {
        "checkpoint": {
            "format": "torch-dist",
            "mode": "async",
            "interval_seconds": "30min",
            "tiers": [
                {
                    "kind": "object-store",
                    "interval_seconds": "1d",
                    "keep": 60,
                    "storage": {"profile": {"write_bytes_per_second": 1e10, "read_bytes_per_second": 1e10}},
                    "cost_per_terabyte": 250,
                }
            ],
        },
        "storage": {
            "profile": {
                "write_bytes_per_second": "50 GB/s",
                "read_bytes_per_second": "50 GB/s",
                "planning_seconds_per_rank": 0,
            }
        },
        "retention": {"keep_last": 3, "free_fraction": 0.2, "redundancy_fraction": 0.25},
        "costs": {"per_terabyte": 200, "per_gigabyte_per_second": 5000, "per_lost_gpu_hour": 2.5, "run_seconds": "54d"},
    },
}
