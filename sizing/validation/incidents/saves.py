"""Saves that stopped the training until the last byte was written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.validation.comparison import Comparison
from sizing.validation.incidents.book import (
    MEASURED,
    NO_PLANS,
    REPORTED,
    held,
    measured,
    reported,
    sharded,
    write_seconds,
)

_FIXED = "a save has a fixed time as well, which one size does not show: the more GPUs, the more it weighs"


def saves() -> Iterator[Comparison]:
    """What saves took, from the rate that the same report gives, or that its smaller configurations show."""
    yield _torchtitan()
    yield from _torchsnapshot_replicated()
    yield from _torchsnapshot_sharded()
    yield from _dlrover()


def _torchtitan() -> Comparison:
    row = reported("torchtitan-1301")
    scenario = {
        "model": {"preset": "llama-3.1-8b"},
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": 8},
        "cluster": {"node": "dgx-h100"},
        "storage": {"profile": {"node_write_bytes_per_second": row["disk_dd_gb_per_s"] * 1e9}},
    }
    return held(
        REPORTED,
        "torchtitan-1301: 8B saved by 8 GPUs of one node, seconds",
        write_seconds(answer(scenario_from(scenario))),
        row["save_seconds"],
        lacks="dd of zeros is faster than the writers of a checkpoint: the model lacks a limit of theirs unless "
        "storage.profile.writer_write_bytes_per_second gives it",
    )


def _torchsnapshot_replicated() -> Iterator[Comparison]:
    """20 GB of which every rank writes a share: one node shows the node's rate; torch.save leaves it to one rank."""
    facts = measured("torchsnapshot")["ddp"]
    total = facts["model_gb"] * 1e9
    for storage in ("local", "FSx for Lustre"):
        rows = [row for row in facts["rows"] if row["storage"] == storage]
        one_gpu, one_node, *more = rows
        rate = total / one_node["torchsnapshot_seconds"]
        for row in more:
            profile = {"node_write_bytes_per_second": rate} | NO_PLANS
            report = sharded(total, num_nodes=row["nodes"], gpus_per_node=row["gpus_per_node"], profile=profile)
            fact = f"torchsnapshot, {storage}: 20 GB by {row['nodes']} nodes at the rate of one, seconds"
            yield held(MEASURED, fact, write_seconds(report), row["torchsnapshot_seconds"], lacks=_FIXED)
        last = more[-1]
        profile = {"writer_write_bytes_per_second": total / one_gpu["torch_save_seconds"]}
        report = sharded(
            total, num_nodes=last["nodes"], gpus_per_node=last["gpus_per_node"], profile=profile, format="full"
        )
        fact = f"torch.save, {storage}: 20 GB by {last['nodes']} nodes at the rate of one GPU, seconds"
        yield held(MEASURED, fact, write_seconds(report), last["torch_save_seconds"], lacks="")


def _torchsnapshot_sharded() -> Iterator[Comparison]:
    """7.8 GB in shards: the smallest run shows the rate of one writer."""
    facts = measured("torchsnapshot")["fsdp"]
    total, (fewest, *more) = facts["model_gb"] * 1e9, facts["rows"]
    rate = total / fewest["gpus"] / fewest["torchsnapshot_seconds"]
    profile = {"writer_write_bytes_per_second": rate} | NO_PLANS
    for row in more:
        report = sharded(total, num_nodes=1, gpus_per_node=row["gpus"], profile=profile)
        fact = f"torchsnapshot, FSDP: 7.8 GB by {row['gpus']} GPUs at the rate of {fewest['gpus']}, seconds"
        yield held(
            MEASURED,
            fact,
            write_seconds(report),
            row["torchsnapshot_seconds"],
            lacks="the writers share a limit of their node, which the smallest run does not reach",
        )


def _dlrover() -> Iterator[Comparison]:
    """GPT-1.5B by Megatron in fp32 on a NAS of 100 MB/s: size, save, load; plain, and with a distributed optimizer."""
    row = measured("dlrover_gpt")
    formats = {"plain": "megatron", "distributed_optimizer": "megatron-distributed-optimizer"}
    copied = (
        "with a distributed optimizer fp32 training keeps a copy of the parameters beside them, 16 B per parameter "
        "and not 12: the model lacks it"
    )
    rate = "whether 100 MB/s is the rate of the storage or of one node is not said"
    for kind, format_name in formats.items():
        report, said = _gpt(row, format_name, distributed_optimizer=kind != "plain"), row[kind]
        name, lacks = kind.replace("_", " "), copied if kind == "distributed_optimizer" else rate
        size = report.checkpoint.total_bytes / 1e9
        yield held(MEASURED, f"DLRover: GPT-1.5B, {name}, GB", size, said["gb"], lacks=lacks)
        seconds = write_seconds(report)
        yield held(MEASURED, f"DLRover: GPT-1.5B saved, {name}, seconds", seconds, said["save_seconds"], lacks=lacks)
        seconds = report.restore.seconds or 0.0
        yield held(MEASURED, f"DLRover: GPT-1.5B loaded, {name}, seconds", seconds, said["load_seconds"], lacks=rate)


def _gpt(row: dict[str, Any], format_name: str, *, distributed_optimizer: bool) -> SizingReport:
    rate = row["storage_megabytes_per_second"] * 1e6
    shape = {name: row[name] for name in ("num_layers", "hidden_size", "num_attention_heads", "max_positions")}
    return answer(
        scenario_from(
            {
                "model": {"architecture": shape | {"family": "gpt2", "vocab_size": 50_257, "tied_embeddings": True}},
                "training": {
                    "framework": "megatron",
                    "precision": "fp32",
                    "vocabulary_padding_multiple": 128,
                    "distributed_optimizer": distributed_optimizer,
                },
                "parallelism": {"tensor": row["tensor"], "data": row["nodes"]},
                "cluster": {"node": "dgx-a100"},
                "checkpoint": {"format": format_name},
                "storage": {"profile": {"write_bytes_per_second": rate, "read_bytes_per_second": rate}},
            }
        )
    )
