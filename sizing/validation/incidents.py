"""Incident book: public reports of saves and loads, each compared with what the model predicts for it.

Stalls of asynchronous saves and the time of planning come first, then saves that stopped the training, then loads, then
sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.run.levels import Level, overhead_of_levels_fraction
from sizing.scenario import scenario_from
from sizing.units import parse_bytes
from sizing.validation.comparison import Comparison, Source, agrees

REPORTED = Source("observation", "Incidents: what saves and loads took, as users and developers reported it")
MEASURED = Source("observation", "Save and load times that projects measured and published")
RECKONED = Source("arithmetic", "Incidents: figures that the reports reckon themselves")

WITHIN = 0.2
"""Reports round, and name one of several runs."""

NO_PLANS = {"planning_seconds_per_rank": 0.0}
"""Profile of torchsnapshot and levanter, whose ranks do not wait for a plan of rank 0 as PyTorch's DCP does."""

GIB: int = parse_bytes("1 GiB")


def read_incident(name: str) -> dict[str, Any]:
    """Return a report of `published/stall_incidents.json`."""
    row: dict[str, Any] = next(row for row in published("stall_incidents")["rows"] if row["id"] == name)
    return row


def read_measurement(name: str) -> dict[str, Any]:
    """Return a report of `published/checkpoint_times.json`."""
    row: dict[str, Any] = published("checkpoint_times")[name]
    return row


def compare(source: Source, fact: str, predicted: float, published: float, *, lacks: str) -> Comparison:
    """Compare a prediction with a report. `lacks`: what the model or the report leaves out, where it misses."""
    close = agrees(predicted, published, within=WITHIN)
    return source.compare(fact, predicted, published, within=WITHIN, miss="" if close else lacks)


def answer_sharded(
    total_bytes: float,
    *,
    num_nodes: int,
    gpus_per_node: int,
    profile: dict[str, float],
    shard_group: int | None = None,
    **checkpoint: Any,
) -> SizingReport:
    """Answer for a checkpoint of this size that all GPUs, or those of a shard group, share equally."""
    return answer(
        scenario_from(
            {
                "model": {"num_parameters": 10**9},
                "training": {"framework": "fsdp2"},
                "parallelism": {"data": num_nodes * gpus_per_node, "shard_group": shard_group},
                "cluster": {"node_spec": {"gpus_per_node": gpus_per_node}},
                "checkpoint": {"observed_bytes": round(total_bytes), **checkpoint},
                "storage": {"profile": profile},
            }
        )
    )


def write_seconds(report: SizingReport) -> float:
    """Return the seconds of the save, in a scenario with a write rate."""
    assert report.write is not None  # noqa: S101  the profiles of this book have one
    return report.write.seconds


def stall_seconds(report: SizingReport) -> float:
    """Return the seconds for which the save stops the training, in a scenario with a write rate."""
    assert report.write is not None  # noqa: S101  likewise
    return report.write.stall_seconds


def planning_seconds(report: SizingReport) -> float:
    """Return the seconds of planning in the save, for a format that plans."""
    assert report.write is not None  # noqa: S101  likewise
    return next(limit.seconds for limit in report.write.limits if limit.resource == "planning")


def incidents() -> Iterator[Comparison]:
    """Compare each report with a prediction from its own figures, such as the rate of its smaller configuration."""
    yield from _marin_stalls()
    yield from _copies_to_host()
    yield from _saves_without_cached_plans()
    yield _torchtitan_save()
    yield from _torchsnapshot_replicated()
    yield from _torchsnapshot_sharded()
    yield from _dlrover()
    yield from _transformers_lustre()
    yield from _transformers_nodes()
    yield _transformers_weka()
    yield _lightning_full_state()
    yield from _checkpoint_sizes()
    yield from _radixark_host_memory()
    yield from _host_memory_of_restores()


_LINE_RATE = (
    "the copy to the host is reckoned at the middle of the fractions of a link's line rate that were measured, with no "
    "time per tensor"
)
_SOME_RATE = {"write_bytes_per_second": 1e10}
"""These reports publish none; what a copy to the host or a plan takes does not depend on it."""


def _marin_stalls() -> Iterator[Comparison]:
    """Compare a rack of 64 processes, each of which stages 78 GiB through a budget of 8 GiB."""
    row, rack = read_incident("marin-8514"), read_incident("marin-8469")
    check = row["check"]
    share = check["share_gib"] * GIB
    num_nodes = rack["gpus"] // rack["processes_per_node"]
    report = answer_sharded(
        share * rack["gpus"],
        num_nodes=num_nodes,
        gpus_per_node=rack["processes_per_node"],
        profile={
            "writer_write_bytes_per_second": check["upload_gib_per_s"] * GIB,
            "device_to_host_bytes_per_second": share / check["copy_seconds"],
        }
        | NO_PLANS,
        mode="async",
        staging_bytes=check["budget_gib"] * GIB,
    )
    yield compare(
        REPORTED,
        "marin-8514: one rack stalled, seconds",
        stall_seconds(report),
        check["measured_seconds"],
        lacks="",
    )
    often = Level(60.0 * row["interval_minutes"], row["stall_seconds"], 0.0, 0.0, 1.0)
    overhead, published = float(overhead_of_levels_fraction([often])), row["stall_fraction_of_wall_clock"]
    yield compare(RECKONED, "marin-8514: share of the time stalled", overhead, published, lacks="")


def _copies_to_host() -> Iterator[Comparison]:
    """Compare how long FSDP's shards took from GPU to host."""
    row = read_incident("automodel-635")
    stall = _fsdp_stall_seconds({"preset": "llama-3.1-8b"}, num_gpus=row["gpus"])
    fact = "automodel-635: Llama 8B stalled on 8 H100, seconds"
    yield compare(REPORTED, fact, stall, row["blocked_seconds_async"], lacks=_LINE_RATE)
    row = read_measurement("dlrover_glm")
    stall = _fsdp_stall_seconds({"num_parameters": round(row["model_parameters_b"] * 1e9)}, num_gpus=row["gpus"])
    fact = "DLRover: GLM-65B copied on 1,536 H800, seconds"
    yield compare(MEASURED, fact, stall, row["flash"]["blocked_seconds"], lacks=_LINE_RATE)
    seconds = read_measurement("pytorch_async")["staging_seconds"]
    profile = _SOME_RATE | {"device_to_host_bytes_per_second": 7e9 * 12 / seconds["7b"]}
    report = answer_sharded(13e9 * 12, num_nodes=1, gpus_per_node=1, profile=profile, mode="async")
    fact = "PyTorch and IBM: 13B copied at the rate of their 7B, seconds"
    yield compare(MEASURED, fact, stall_seconds(report), seconds["13b"], lacks=_LINE_RATE)


def _fsdp_stall_seconds(model: dict[str, Any], *, num_gpus: int) -> float:
    scenario = {
        "model": model,
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": num_gpus},
        "cluster": {"node": "dgx-h100"},
        "checkpoint": {"mode": "async"},
        "storage": {"profile": _SOME_RATE},
    }
    return stall_seconds(answer(scenario_from(scenario)))


def _saves_without_cached_plans() -> Iterator[Comparison]:
    """Compare saves without cached plans, at the rate of the saves that had them cached."""
    row = read_incident("pytorch-147343")
    total = row["checkpoint_tb"] * 1e12
    profile = {"write_bytes_per_second": total / row["save_seconds_later"]}
    first = answer_sharded(total, num_nodes=row["ranks"] // 8, gpus_per_node=8, profile=profile)
    fact = "pytorch-147343: first save of 1.6 TB on 256 ranks, seconds"
    longer = (row["save_seconds_first"] - row["save_seconds_later"]) / row["ranks"]
    lacks = f"the first save took {longer:.2f} s longer per rank, beyond the range of planning that is assumed"
    yield compare(REPORTED, fact, write_seconds(first), row["save_seconds_first"], lacks=lacks)
    row, fact = read_incident("pytorch-149785"), "pytorch-149785: global plan of 256 ranks, seconds"
    report = answer_sharded(1e12, num_nodes=row["ranks"] // 8, gpus_per_node=8, profile=_SOME_RATE)
    # This confirms nothing, as the default was derived from the figure.
    lacks = f"the default is the middle of this figure and of {row['seconds_after']:g} s with cached plans"
    yield compare(RECKONED, fact, planning_seconds(report), row["seconds_before"], lacks=lacks)
    cached = read_measurement("pytorch_cached_plans")
    total = 70e9 * 12.0
    profile = {"write_bytes_per_second": total / cached["background_seconds"]}
    unplanned = answer_sharded(total, num_nodes=cached["gpus"] // 8, gpus_per_node=8, profile=profile)
    fact = "PyTorch and Crusoe: Llama3-70B saved on 1,856 GPUs without cached plans, seconds"
    published = cached["background_seconds_without_cached_plan"]
    yield compare(MEASURED, fact, write_seconds(unplanned), published, lacks="")


_LACKS_FIXED_TIME = "a save has a fixed time as well, which one size does not show: the more GPUs, the more it weighs"


def _torchtitan_save() -> Comparison:
    row = read_incident("torchtitan-1301")
    scenario = {
        "model": {"preset": "llama-3.1-8b"},
        "training": {"framework": "fsdp2"},
        "parallelism": {"data": 8},
        "cluster": {"node": "dgx-h100"},
        "storage": {"profile": {"node_write_bytes_per_second": row["disk_dd_gb_per_s"] * 1e9}},
    }
    return compare(
        REPORTED,
        "torchtitan-1301: 8B saved by 8 GPUs of one node, seconds",
        write_seconds(answer(scenario_from(scenario))),
        row["save_seconds"],
        lacks="dd of zeros is faster than the writers of a checkpoint: the model lacks a limit of theirs unless "
        "storage.profile.writer_write_bytes_per_second gives it",
    )


def _torchsnapshot_replicated() -> Iterator[Comparison]:
    """Compare 20 GB of which every rank writes a share, at the rate of one node; torch.save writes with one rank."""
    facts = read_measurement("torchsnapshot")["ddp"]
    total = facts["model_gb"] * 1e9
    for storage in ("local", "FSx for Lustre"):
        rows = [row for row in facts["rows"] if row["storage"] == storage]
        one_gpu, one_node, *more = rows
        rate = total / one_node["torchsnapshot_seconds"]
        for row in more:
            profile = {"node_write_bytes_per_second": rate} | NO_PLANS
            report = answer_sharded(total, num_nodes=row["nodes"], gpus_per_node=row["gpus_per_node"], profile=profile)
            fact = f"torchsnapshot, {storage}: 20 GB by {row['nodes']} nodes at the rate of one, seconds"
            yield compare(MEASURED, fact, write_seconds(report), row["torchsnapshot_seconds"], lacks=_LACKS_FIXED_TIME)
        last = more[-1]
        profile = {"writer_write_bytes_per_second": total / one_gpu["torch_save_seconds"]}
        report = answer_sharded(
            total, num_nodes=last["nodes"], gpus_per_node=last["gpus_per_node"], profile=profile, format="full"
        )
        fact = f"torch.save, {storage}: 20 GB by {last['nodes']} nodes at the rate of one GPU, seconds"
        yield compare(MEASURED, fact, write_seconds(report), last["torch_save_seconds"], lacks="")


def _torchsnapshot_sharded() -> Iterator[Comparison]:
    """Compare 7.8 GB in shards, at the rate per writer of the smallest run."""
    facts = read_measurement("torchsnapshot")["fsdp"]
    total, (fewest, *more) = facts["model_gb"] * 1e9, facts["rows"]
    rate = total / fewest["gpus"] / fewest["torchsnapshot_seconds"]
    profile = {"writer_write_bytes_per_second": rate} | NO_PLANS
    for row in more:
        report = answer_sharded(total, num_nodes=1, gpus_per_node=row["gpus"], profile=profile)
        fact = f"torchsnapshot, FSDP: 7.8 GB by {row['gpus']} GPUs at the rate of {fewest['gpus']}, seconds"
        yield compare(
            MEASURED,
            fact,
            write_seconds(report),
            row["torchsnapshot_seconds"],
            lacks="the writers share a limit of their node, which the smallest run does not reach",
        )


def _dlrover() -> Iterator[Comparison]:
    """Compare GPT-1.5B by Megatron in fp32 on a NAS of 100 MB/s: plain, and with a distributed optimizer."""
    row = read_measurement("dlrover_gpt")
    formats = {"plain": "megatron", "distributed_optimizer": "megatron-distributed-optimizer"}
    copied = (
        "with a distributed optimizer fp32 training keeps a copy of the parameters beside them, 16 B per parameter "
        "and not 12: the model lacks it"
    )
    rate = "whether 100 MB/s is the rate of the storage or of one node is not said"
    for kind, format_name in formats.items():
        report, measurement = _answer_gpt(row, format_name, distributed_optimizer=kind != "plain"), row[kind]
        name, lacks = kind.replace("_", " "), copied if kind == "distributed_optimizer" else rate
        size = report.checkpoint.total_bytes / 1e9
        yield compare(MEASURED, f"DLRover: GPT-1.5B, {name}, GB", size, measurement["gb"], lacks=lacks)
        seconds = write_seconds(report)
        yield compare(
            MEASURED, f"DLRover: GPT-1.5B saved, {name}, seconds", seconds, measurement["save_seconds"], lacks=lacks
        )
        seconds = report.restore.seconds or 0.0
        yield compare(
            MEASURED, f"DLRover: GPT-1.5B loaded, {name}, seconds", seconds, measurement["load_seconds"], lacks=rate
        )


def _answer_gpt(row: dict[str, Any], format_name: str, *, distributed_optimizer: bool) -> SizingReport:
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


_READS_SLICES = (
    "the loader reads every tensor by small slices of a mapped file: the model takes reads for large and sequential"
)


def _transformers_lustre() -> Iterator[Comparison]:
    """Compare 206 GiB of weights loaded by one node: by large sequential reads, and by the loader's own."""
    row = read_measurement("transformers_lustre")
    profile = {
        "node_read_bytes_per_second": row["node_gib_per_second"] * GIB,
        "writer_read_bytes_per_second": row["stream_gib_per_second"] * GIB,
    }
    report = answer_sharded(row["gib"] * GIB, num_nodes=row["nodes"], gpus_per_node=row["gpus"], profile=profile)
    seconds = report.restore.seconds or 0.0
    for fact, key in (("prefetched by sequential reads", "prefetch_seconds"), ("loaded", "load_seconds")):
        yield compare(
            MEASURED, f"transformers: 206 GiB {fact} by 8 GPUs, seconds", seconds, row[key], lacks=_READS_SLICES
        )


def _transformers_nodes() -> Iterator[Comparison]:
    """Compare weights that every node reads whole, at the rate that one node reached."""
    alone, *more = read_measurement("transformers_nodes")["rows"]
    profile = {"node_read_bytes_per_second": alone["gib"] * GIB / alone["load_seconds"]}
    for row in more:
        report = answer_sharded(
            row["gib"] * GIB, num_nodes=row["nodes"], gpus_per_node=8, profile=profile, shard_group=8
        )
        yield compare(
            MEASURED,
            f"transformers: {row['model']} loaded by {row['nodes']} nodes at the rate of one, seconds",
            report.restore.seconds or 0.0,
            row["load_seconds"],
            lacks=f"what the file system gives to all nodes together is not published, and {_READS_SLICES}",
        )


def _transformers_weka() -> Comparison:
    row = read_incident("transformers-48227")
    rate, _ = row["sequential_read_gib_per_s"]
    profile = {"writer_read_bytes_per_second": rate * GIB}
    report = answer_sharded(row["model_gb"] * 1e9, num_nodes=1, gpus_per_node=row["gpus"], profile=profile)
    fact = "transformers-48227: 57 GB loaded by 8 GPUs, seconds"
    return compare(REPORTED, fact, report.restore.seconds or 0.0, row["seconds_before"], lacks=_READS_SLICES)


def _lightning_full_state() -> Comparison:
    """Compare a full state that one rank reads and sends on: Llama 3 70B, at the rate of 8B."""
    row = read_incident("lightning-19870")
    small, large = (
        answer(scenario_from({"model": {"preset": name}})).model.num_parameters
        for name in ("llama-3-8b", "llama-3-70b")
    )
    profile = {"read_bytes_per_second": 2 * small / row["load_seconds_llama3_8b"][-1]}
    report = answer_sharded(2 * large, num_nodes=1, gpus_per_node=8, profile=profile, format="full")
    return compare(
        REPORTED,
        "lightning-19870: Llama 3 70B loaded at the rate of its 8B, seconds",
        report.restore.read_seconds or 0.0,
        row["load_seconds_llama3_70b_after"],
        lacks="a load has a fixed time as well, which one size does not show: 8B is mostly that",
    )


def _checkpoint_sizes() -> Iterator[Comparison]:
    """Compare a checkpoint of 20B, and exported weights of 550B."""
    row = read_incident("ezpz-197")
    report = _answer(row, training={"framework": "fsdp2"})
    fact = "ezpz-197: checkpoint of 20B, GB"
    yield compare(REPORTED, fact, report.checkpoint.total_bytes / 1e9, row["checkpoint_gb"], lacks="")
    row = read_incident("skyrl-1831")
    weights = {"framework": "fsdp2", "saved_state": {"weights": "bf16", "moments": None}}
    report = _answer(row, training=weights)
    fact = "skyrl-1831: exported weights of 550B, TB"
    yield compare(REPORTED, fact, report.checkpoint.total_bytes / 1e12, row["checkpoint_tb"], lacks="")


def _radixark_host_memory() -> Iterator[Comparison]:
    """Compare GLM-5.2 744B on 16 nodes, whose first save took more host memory than the nodes had."""
    row = read_incident("radixark-megatron-61")
    report = _answer(
        {"model_parameters_b": 744},
        parallelism={name: row[name] for name in ("tensor", "pipeline", "data")},
        checkpoint={"format": "torch-dist"},
        cluster={"node_spec": {"gpus_per_node": 4}},
    )
    a_node, needed = report.checkpoint.total_bytes / report.layout.num_nodes, row["host_gb_per_node_needed"]
    yield compare(RECKONED, "radixark-megatron-61: GB of the checkpoint on a node", a_node / 1e9, needed, lacks="")
    yield compare(
        RECKONED,
        "radixark-megatron-61: host GB that a synchronous save takes of a node",
        report.host_memory.needed_bytes / 1e9,
        needed,
        lacks="",
    )


def _host_memory_of_restores() -> Iterator[Comparison]:
    """Compare what restores took of host memory, and saves of GPU 0, with what is reckoned for the same ranks."""
    rows = {row["id"]: row for row in published("job_kills")["rows"]}
    row, rack = rows["marin-8480"], read_incident("marin-8469")
    held = _restore_gib_per_process(row["share_gib"] * GIB * rack["gpus"], rack)
    grown = row["rank_gib_after_restore"] - row["rank_gib_before_restore"]
    yield compare(REPORTED, "marin-8480: GiB that a restore adds to a process", held, grown, lacks="")
    peak = rack["processes_per_node"] * (row["rank_gib_before_restore"] + held)
    yield compare(
        REPORTED, "marin-8480: GiB of a node at the peak of a restore", peak, row["node_peak_gib"][0], lacks=""
    )
    row = rows["verl-5703"]
    report = _answer(
        row,
        parallelism={"tensor": row["tensor"], "data": 8 // row["tensor"]},  # one node: how many is not stated
        training={"offload": {"optimizer": "host"}, "distributed_optimizer": True},
        checkpoint={"format": "torch-dist"},
        cluster={"node_spec": {"gpus_per_node": 8}},
    )
    yield compare(
        REPORTED,
        "verl-5703: GiB of host memory at a save",
        report.host_memory.needed_bytes / GIB,
        row["host_gib"],
        lacks="the weights that vLLM and the reference model keep, and the gradients and weights that verl offloads: "
        "the optimizer on the host and the staged share of torch_dist count alone",
    )


def _restore_gib_per_process(total_bytes: float, rack: dict[str, Any]) -> float:
    """Return the GiB that each process of a rack holds of a state that all read through Orbax's budget."""
    report = _answer(
        {"model_parameters_b": total_bytes / 12e9},
        training={"framework": "maxtext"},
        parallelism={"data": rack["gpus"]},
        checkpoint={"mode": "sync"},
        cluster={"node_spec": {"gpus_per_node": rack["processes_per_node"]}},
    )
    return report.host_memory.restore_bytes / int(rack["processes_per_node"]) / GIB


def _answer(row: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(scenario_from({"model": {"num_parameters": row["model_parameters_b"] * 1e9}} | blocks))
