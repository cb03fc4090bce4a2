"""Bytes of checkpoints that others saved, and of checkpoints that the benchmark MLPerf Storage defines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sizing.model import Architecture
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.units import parse_bytes
from sizing.validation.comparison import EXACT, Comparison, Source

_DLIO = Source("tool", "MLPerf Storage v3.0: checkpoint sizes that its tool DLIO computes and records")
_SHAPES = Source("arithmetic", "MLPerf Storage v3.0: parameters counted from the workloads' shapes")
_SAVED = Source(
    "observation", "A 60M Llama saved with torch 2.13 and DeepSpeed 0.19 for this comparison: bytes on disk"
)
_METADATA = Source("arithmetic", "The same Llama's .metadata: our rule, on the four sizes that it was fitted to")
_RUNS = Source("observation", "Checkpoints of published runs, as their READMEs and logbooks print them")
_GEMINI = Source("arithmetic", "GEMINI, SOSP 2023: minutes to save MT-NLG at 20 Gb/s, quoted from a reader's notes")
_GIB, _TIB = parse_bytes("1 GiB"), parse_bytes("1 TiB")

_SMALL_LLAMA = {
    "family": "llama",
    "hidden_size": 512,
    "num_layers": 8,
    "num_attention_heads": 8,
    "ffn_hidden_size": 1536,
    "vocab_size": 32_000,
    "tied_embeddings": False,
}
"""The model that was saved for `published/framework_checkpoints.json`."""


def mlperf() -> Iterator[Comparison]:
    """Compare the MLPerf Storage workloads, which save fp16 weights beside ZeRO-3's shards by their own choice."""
    parts = {"weights": "fp16", "master": "fp32", "moments": "fp32"}
    for name, row in published("mlperf_storage_checkpoint")["workloads"].items():
        shape = {field: row[field] for field in row if field in Architecture.model_fields}
        report = _report(
            {"architecture": shape | {"family": "llama", "tied_embeddings": False}},
            training={"framework": "deepspeed", "precision": "fp16-mixed", "saved_state": parts},
            parallelism={
                "tensor": row["tensor_parallel"],
                "pipeline": row["pipeline_parallel"],
                "data": row["data_parallel"],
                "zero_stage": row["zero_stage"],
            },
        )
        yield _SHAPES.compare(f"{name} parameters", report.model.num_parameters, row["num_parameters"], within=EXACT)
        yield _DLIO.compare(f"{name} GiB in total", report.checkpoint.total_bytes / _GIB, row["total_gib"], within=1e-3)
        ranks = [rank_class.bytes_per_rank / _GIB for rank_class in report.layout.rank_classes]
        if "max_rank_gib" in row:
            largest, smallest, miss = row["max_rank_gib"], row["min_rank_gib"], ""
        else:
            largest, smallest = row["dlio_rank_gib"]["max"], row["dlio_rank_gib"]["min"]
            miss = "DLIO gives every rank the average optimizer share, whatever its stage"
        yield _DLIO.compare(f"{name} GiB of the largest rank", max(ranks), largest, within=5e-3, miss=miss)
        yield _DLIO.compare(f"{name} GiB of the smallest rank", min(ranks), smallest, within=5e-3, miss=miss)


def framework_checkpoints() -> Iterator[Comparison]:
    """Compare a 60-million-parameter Llama as really saved: bytes per parameter on disk, containers included."""
    facts = published("framework_checkpoints")
    for row in facts["rows"]:
        framework, _, variant = row["framework"].partition(" ")
        training = {"framework": framework.lower().rstrip(",")}
        parallelism = {"data": row["ranks"]}
        if "pure bf16" in variant:
            training["precision"] = "bf16"
        if "ZeRO" in variant:
            parallelism["zero_stage"] = int(variant.removeprefix("ZeRO-")[0])
        checkpoint = {"format": row.get("format")}
        report = _report(
            {"architecture": _SMALL_LLAMA}, training=training, parallelism=parallelism, checkpoint=checkpoint
        )
        on_disk = report.checkpoint.total_bytes + report.checkpoint.container_bytes
        yield _SAVED.compare(
            f"B per parameter: {row['framework'].partition(',')[0]}, {row['bytes_per_parameter']:.0f} B, "
            f"{row['ranks']} ranks",
            on_disk / report.model.num_parameters,
            row["bytes_per_parameter"],
            within=5e-3,
        )
    for ranks, measured in facts["dcp_metadata"]["measured_bytes"].items():
        parallelism = {"data": int(ranks.split()[0])}
        report = _report({"architecture": _SMALL_LLAMA}, training={"framework": "fsdp2"}, parallelism=parallelism)
        num_bytes = report.checkpoint.small_state_bytes[".metadata"]
        yield _METADATA.compare(f".metadata bytes, {ranks}", num_bytes, measured, within=0.1)


def published_checkpoints() -> Iterator[Comparison]:
    """Compare the checkpoint sizes that runs printed, in binary units that du rounds up: right to the last digit."""
    printed = {row["model"]: row for row in published("published_checkpoints")["rows"]}
    for name, precision, unit in (("bloom-176b", "bf16-mixed", _TIB), ("gpt-neox-20b", "fp16-mixed", _GIB)):
        training = {"framework": "deepspeed", "precision": precision}
        report = _report({"preset": name}, training=training, parallelism={"zero_stage": 1})
        weights = report.checkpoint.parts["weights"].total_bytes
        yield _printed(f"{name} weights, GiB", weights / _GIB, printed[name]["weights_printed"])
        shown = "TiB" if unit == _TIB else "GiB"
        yield _printed(f"{name} whole, {shown}", report.checkpoint.total_bytes / unit, printed[name]["full_printed"])
    yield from _opt(printed["opt-175b"])
    yield from _megatron_deepspeed(printed["megatron-deepspeed-181b"])


def _opt(row: dict[str, Any]) -> Iterator[Comparison]:
    """Compare OPT-175B twice: with the framework's default, and as saved, in fp16 weights and fp32 moments alone."""
    by_default = _report({"preset": "opt-175b"})
    default_bytes = by_default.checkpoint.bytes_per_parameter
    yield _printed(
        "opt-175b whole by default, TiB",
        by_default.checkpoint.total_bytes / _TIB,
        row["full_printed"],
        miss=f"metaseq saves no fp32 master copy: {row['bytes_per_parameter']} B per parameter, not the default's "
        f"{default_bytes:.0f}, {default_bytes / row['bytes_per_parameter']:.2f} x; training.saved_state says so",
    )
    saved_state = {"weights": "fp16", "moments": "fp32"}
    report = _report({"preset": "opt-175b"}, training={"framework": "fsdp2", "saved_state": saved_state})
    yield _printed("opt-175b as it was saved, TiB", report.checkpoint.total_bytes / _TIB, row["full_printed"])
    num_files = int(row["full_printed"].partition(", ")[2].split()[0])
    a_file = report.checkpoint.total_bytes / num_files / _GIB
    yield _printed("opt-175b one of its files, GiB", a_file, row["full_printed"].partition("about ")[2])


def _megatron_deepspeed(row: dict[str, Any]) -> Iterator[Comparison]:
    report = _report({"num_parameters": 181e9}, training={"framework": "deepspeed"}, parallelism={"zero_stage": 1})
    parts = report.checkpoint.parts
    yield _printed("megatron-deepspeed-181b whole, TiB", report.checkpoint.total_bytes / _TIB, row["full_printed"])
    weights, optimizer = row["full_printed"].partition("= ")[2].split(" + ")
    for name, total_bytes, text in (
        ("weights", parts["weights"].total_bytes, weights),
        ("optimizer", parts["master"].total_bytes + parts["moments"].total_bytes, optimizer),
    ):
        num_files, _, size = text.partition(" x ")
        yield _printed(f"megatron-deepspeed-181b {name} file, GiB", total_bytes / int(num_files) / _GIB, size)


def _printed(fact: str, predicted: float, text: str, *, miss: str = "") -> Comparison:
    """Compare a size with the number at the start of a text, to one unit of its last digit."""
    digits = text.split(maxsplit=1)[0]
    number, last = float(digits), 10.0 ** -len(digits.partition(".")[2])
    return _RUNS.compare(fact, predicted, number, within=last / number, miss=miss)


def mt_nlg() -> Iterator[Comparison]:
    """Compare the time to save MT-NLG's state. GEMINI trains with DeepSpeed ZeRO-3, which saves 12 B per parameter."""
    row = published("checkpoint_times")["mt_nlg"]
    report = _report(
        {"preset": "megatron-530b"},
        training={"framework": "deepspeed"},
        parallelism={"zero_stage": row["zero_stage"]},
        storage={"profile": {"write_bytes_per_second": f"{row['gigabits_per_second']} Gb/s"}},
    )
    assert report.write is not None  # noqa: S101  the profile has a write rate
    yield _GEMINI.compare("MT-NLG 530B saved, minutes", report.write.seconds / 60, row["minutes"], within=0.02)


def _report(model: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(scenario_from({"model": model} | blocks))
