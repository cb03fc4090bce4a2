"""Bytes of checkpoints, and host memory, that reports name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.validation.comparison import Comparison
from sizing.validation.incidents.book import RECKONED, REPORTED, held, reported


def sizes() -> Iterator[Comparison]:
    """What checkpoints weigh, and what a node holds of one while it is saved."""
    row = reported("ezpz-197")
    report = _report(row, training={"framework": "fsdp2"})
    fact = "ezpz-197: checkpoint of 20B, GB"
    yield held(REPORTED, fact, report.checkpoint.total_bytes / 1e9, row["checkpoint_gb"], lacks="")
    row = reported("skyrl-1831")
    weights = {"framework": "fsdp2", "saved_state": {"weights": "bf16", "moments": None}}
    report = _report(row, training=weights)
    fact = "skyrl-1831: exported weights of 550B, TB"
    yield held(REPORTED, fact, report.checkpoint.total_bytes / 1e12, row["checkpoint_tb"], lacks="")
    yield from _staged()


def _staged() -> Iterator[Comparison]:
    """GLM-5.2 744B on 16 nodes, whose first save took more host memory than there was."""
    row = reported("radixark-megatron-61")
    report = _report(
        {"model_parameters_b": 744},
        parallelism={name: row[name] for name in ("tensor", "pipeline", "data")},
        checkpoint={"format": "torch-dist"},
        cluster={"node_spec": {"gpus_per_node": 4}},
    )
    a_node, needed = report.checkpoint.total_bytes / report.layout.num_nodes, row["host_gb_per_node_needed"]
    yield held(RECKONED, "radixark-megatron-61: GB of the checkpoint on a node", a_node / 1e9, needed, lacks="")
    yield held(
        RECKONED,
        "radixark-megatron-61: host GB that a synchronous save takes of a node",
        report.host_memory.needed_bytes / 1e9,
        needed,
        lacks="torch_dist stages all buckets in host memory before it writes, in synchronous saves too: the model "
        "stages in asynchronous ones alone",
    )


def _report(row: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(scenario_from({"model": {"num_parameters": row["model_parameters_b"] * 1e9}} | blocks))
