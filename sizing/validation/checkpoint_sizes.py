"""Bytes of checkpoints that others measured or defined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.model import Architecture
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.validation.comparison import EXACT, Comparison


def mlperf() -> Iterator[Comparison]:
    """The MLPerf Storage workloads, which save fp16 weights beside ZeRO-3's shards by their own choice."""
    source, parts = "MLPerf Storage, checkpointing", {"weights": "fp16", "master": "fp32", "moments": "fp32"}
    for name, row in published("mlperf_storage_checkpoint")["workloads"].items():
        report = _report(
            {"architecture": _mlperf_architecture(row)},
            training={"framework": "deepspeed", "precision": "fp16-mixed", "saved_state": parts},
            parallelism={
                "tensor": row["tensor_parallel"],
                "pipeline": row["pipeline_parallel"],
                "data": row["data_parallel"],
                "zero_stage": row["zero_stage"],
            },
        )
        ranks = [rank_class.bytes_per_rank / 2**30 for rank_class in report.layout.rank_classes]
        yield Comparison(f"{name} parameters", report.model.num_parameters, row["num_parameters"], EXACT, source)
        total = report.checkpoint.total_bytes / 2**30
        yield Comparison(f"{name} GiB in total", total, row["total_gib"], 1e-3, source)
        if "max_rank_gib" in row:
            yield Comparison(f"{name} GiB of the largest rank", max(ranks), row["max_rank_gib"], 5e-3, source)
            yield Comparison(f"{name} GiB of the smallest rank", min(ranks), row["min_rank_gib"], 5e-3, source)
        else:
            miss = "DLIO gives every rank the average optimizer share, whatever its stage"
            dlio = row["dlio_rank_gib"]
            yield Comparison(f"{name} GiB of the largest rank", max(ranks), dlio["max"], 5e-3, source, miss)
            yield Comparison(f"{name} GiB of the smallest rank", min(ranks), dlio["min"], 5e-3, source, miss)


def _mlperf_architecture(row: dict[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in row if name in Architecture.model_fields}
    return fields | {"family": "llama", "tied_embeddings": False}


def framework_checkpoints() -> Iterator[Comparison]:
    """A 60-million-parameter Llama as really saved: bytes per parameter on disk, containers included."""
    shape = {
        "family": "llama",
        "hidden_size": 512,
        "num_layers": 8,
        "num_attention_heads": 8,
        "ffn_hidden_size": 1536,
        "vocab_size": 32_000,
        "tied_embeddings": False,
    }
    for row in published("framework_checkpoints")["rows"]:
        framework, _, variant = row["framework"].partition(" ")
        training = {"framework": framework.lower().rstrip(",")}
        parallelism = {"data": row["ranks"]}
        if "pure bf16" in variant:
            training["precision"] = "bf16"
        if "ZeRO" in variant:
            parallelism["zero_stage"] = int(variant.removeprefix("ZeRO-")[0])
        checkpoint = {"format": row.get("format")}
        report = _report({"architecture": shape}, training=training, parallelism=parallelism, checkpoint=checkpoint)
        on_disk = report.checkpoint.total_bytes + report.checkpoint.container_bytes
        yield Comparison(
            f"B per parameter: {row['framework'].partition(',')[0]}, {row['bytes_per_parameter']:.0f} B, "
            f"{row['ranks']} ranks",
            on_disk / report.model.num_parameters,
            row["bytes_per_parameter"],
            5e-3,
            "Checkpoints really saved, torch 2.13 and DeepSpeed 0.19",
        )


def _report(model: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(scenario_from({"model": model} | blocks))
