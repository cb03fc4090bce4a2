"""Predicted against published: every fact in `published/` that the calculation reproduces."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from sizing.model import Architecture, catalog, num_parameters
from sizing.model.catalog import CatalogModel
from sizing.model.formulas import megatron_gpt_parameters
from sizing.model.inventory import inventory_of
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.run.failures import mtbf_seconds
from sizing.run.interval import (
    daly_first_order_seconds,
    daly_seconds,
    ettr_fraction,
    first_order_waste_fraction,
    goodput_fraction,
    optimal_seconds,
    young_seconds,
)
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from sizing.units import SECONDS_PER_DAY
from sizing.validation.comparison import EXACT, Comparison
from sizing.validation.gpu_memory_facts import gpu_memory_facts
from sizing.validation.storage_times import storage_times


def comparisons() -> list[Comparison]:
    """All comparisons, by source."""
    return [
        *_parameter_counts(),
        *_megatron_table(),
        *_reference_run(),
        *_reference_limits(),
        *_gpt3_writers(),
        *gpu_memory_facts(),
        *_mlperf(),
        *storage_times(),
        *_framework_checkpoints(),
        *_intervals(),
    ]


def _parameter_counts() -> Iterator[Comparison]:
    for row in published("model_parameters")["models"]:
        if row["name"] in catalog():
            yield Comparison(
                f"parameters of {row['name']}",
                _count(catalog()[row["name"]]),
                row["num_parameters"],
                EXACT,
                "Exact counts of the published architectures",
            )


def _megatron_table() -> Iterator[Comparison]:
    by_shape = {(m.architecture.hidden_size, m.architecture.num_layers): m for m in catalog().values()}
    for row in published("megatron_table1")["rows"]:
        hidden, layers, truth = row["hidden_size"], row["num_layers"], row["num_parameters_by_formula"]
        label, source = f"{row['printed_billion_parameters']}B", "Narayanan et al. 2021, Table 1"
        formula = megatron_gpt_parameters(
            num_layers=layers, hidden_size=hidden, vocab_size=51_200, sequence_length=2_048
        )
        yield Comparison(f"{label} by the paper's formula", formula, truth, EXACT, source)
        count = _count(by_shape[hidden, layers])
        yield Comparison(f"{label} inventory less final norm 2h", count - 2 * hidden, truth, EXACT, source)


def _reference_run() -> Iterator[Comparison]:
    facts, source = published("vast_checkpoint_example")["one_trillion"], "VAST Data 2024"
    report = answer(scenario_from(REFERENCE_SCENARIO))
    write = report.write
    assert write is not None  # noqa: S101  the reference scenario has a write rate
    lost, overhead = facts["lost_work"], report.overhead.fraction or 0.0
    rows = {
        "parameters": (report.model.num_parameters, "num_parameters_exact", EXACT),
        "logical bytes at 14 B": (report.checkpoint.logical_bytes, "logical_bytes_at_14", EXACT),
        "logical bytes against observed": (report.checkpoint.logical_bytes, "checkpoint_bytes", 0.03),
        "nodes": (report.layout.num_nodes, "num_nodes", EXACT),
        "writers": (report.layout.num_writers, "num_writers", EXACT),
        "writing nodes": (report.layout.num_writing_nodes, "num_writing_nodes", EXACT),
        "write seconds": (write.seconds, "write_seconds", 1e-4),
        "write rate per GPU": (write.per_writer_bytes_per_second, "write_bytes_per_second_per_gpu", 1e-3),
        "write rate per node": (write.per_node_bytes_per_second, "write_bytes_per_second_per_node", 1e-3),
        "overhead at 4 h": (overhead, "overhead_fraction", 1e-3),
        "restore rate for the write time": (
            report.restore.bytes_per_second_for_write_time or 0.0,
            "restore_bytes_per_second",
            1e-9,
        ),
        "write rate required for 5 %": (
            report.required.write_bytes_per_second or 0.0,
            "required_write_bytes_per_second_for_5_percent",
            1e-9,
        ),
    }
    for fact, (predicted, key, tolerance) in rows.items():
        yield Comparison(f"1T {fact}", predicted, facts[key], tolerance, source)
    at_4h = float(goodput_fraction(14_400, stall_seconds=write.stall_seconds, mtbf_seconds=lost["mtbf_seconds"]))
    interval = report.interval
    lost_rows = {
        "job MTBF": (interval.mtbf_seconds, lost["mtbf_seconds"], 1e-9),
        "goodput at 4 h of compute": (at_4h, lost["efficiency_at_4h_compute_interval"], 1e-6),
        "best compute interval": (interval.optimal_seconds, lost["best_compute_interval_seconds"], 1e-3),
        "goodput at the best": (interval.goodput_at_optimum_fraction, lost["efficiency_at_best"], 1e-6),
    }
    for fact, (value, truth, tolerance) in lost_rows.items():
        yield Comparison(f"1T {fact}", value or 0.0, truth, tolerance, "Daly 2006, equation 20, on RSC-1's failures")


def _reference_limits() -> Iterator[Comparison]:
    facts = published("vast_checkpoint_example")["one_trillion"]
    case, report = facts["case_with_limits"], _reference_with_limits(facts["case_with_limits"])
    write = report.write
    assert write is not None  # noqa: S101  the case has write rates
    source = "VAST Data 2024, with its limits"
    rate = write.bytes_per_second
    yield Comparison("1T rate allowed by 8 GB/s per node", rate, case["expected_bytes_per_second"], 1e-9, source)
    yield Comparison("1T seconds by 8 GB/s per node", write.seconds, case["expected_seconds"], 1e-9, source)
    miss = "the node limit alone does not explain what was observed"
    yield Comparison("1T rate allowed against observed", rate, facts["write_bytes_per_second"], 0.1, source, miss)


def _reference_with_limits(case: dict[str, Any]) -> SizingReport:
    scenario = copy.deepcopy(REFERENCE_SCENARIO)
    scenario["storage"]["profile"] = {
        "write_bytes_per_second": case["file_system_write_bytes_per_second"],
        "node_write_bytes_per_second": case["node_write_bytes_per_second"],
    }
    return answer(scenario_from(scenario))


def _gpt3_writers() -> Iterator[Comparison]:
    facts = published("vast_checkpoint_example")["gpt3"]
    report = answer(
        scenario_from(
            {
                "model": {"preset": "gpt3-175b"},
                "parallelism": {
                    "tensor": facts["tensor_parallel"],
                    "pipeline": facts["pipeline_parallel"],
                    "data": facts["data_parallel"],
                },
                "cluster": {"node": "dgx-a100", "num_gpus": facts["num_gpus"]},
            }
        )
    )
    layout = report.layout
    found = {
        "num_nodes": layout.num_nodes,
        "num_writers": layout.num_writers,
        "num_writing_nodes": layout.num_writing_nodes,
        "num_files": report.checkpoint.num_files,
    }
    for key, value in found.items():
        yield Comparison(
            f"GPT-3 {key.removeprefix('num_').replace('_', ' ')}", value, facts[key], EXACT, "VAST Data 2024"
        )


def _mlperf() -> Iterator[Comparison]:
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


def _framework_checkpoints() -> Iterator[Comparison]:
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
        report = _report({"architecture": shape}, training=training, parallelism=parallelism)
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


def _intervals() -> Iterator[Comparison]:
    facts = published("checkpoint_intervals")
    for row in facts["vectors"]:
        stall, mtbf = row["checkpoint_seconds"], row["mtbf_seconds"]
        best = float(optimal_seconds(stall, mtbf_seconds=mtbf))
        found = {
            "exact_argmin_seconds": best,
            "young_seconds": float(young_seconds(stall, mtbf_seconds=mtbf)),
            "daly_first_order_seconds": float(daly_first_order_seconds(stall, mtbf_seconds=mtbf)),
            "daly_seconds": float(daly_seconds(stall, mtbf_seconds=mtbf)),
            "efficiency_at_optimum": float(goodput_fraction(best, stall_seconds=stall, mtbf_seconds=mtbf)),
        }
        for key, value in found.items():
            fact = f"{key.removesuffix('_seconds').replace('_', ' ')}, stall {stall} s, MTBF {mtbf} s"
            yield Comparison(fact, value, row[key], 1e-5, "Young 1974, Daly 2006")
    for row in facts["ettr_vectors"]:
        yield from _effective_training_time(row)
    yield from _two_levels(facts["two_level_vector"])


def _effective_training_time(row: dict[str, Any]) -> Iterator[Comparison]:
    num_nodes, stall = row["num_gpus"] / row["gpus_per_node"], row["stall_seconds"]
    mtbf = mtbf_seconds(row["failures_per_node_day"] / SECONDS_PER_DAY, num_components=num_nodes)
    ratio = ettr_fraction(
        row["interval_seconds"], stall_seconds=stall, mtbf_seconds=mtbf, recovery_seconds=row["restart_seconds"]
    )
    source, what = "Kokolis et al. 2024, arXiv 2410.21680", f"{row['num_gpus']:,} GPUs"
    yield Comparison(f"effective training time, {what}", float(ratio), row["ettr"], 1e-4, source)
    best = float(young_seconds(stall, mtbf_seconds=mtbf))
    yield Comparison(f"best interval, {what}", best, row["interval_seconds"], 1e-3, source)


def _two_levels(facts: dict[str, Any]) -> Iterator[Comparison]:
    mtbf, share = facts["mtbf_seconds"], facts["share_recoverable_from_level1"]
    first, second, source = facts["level1_seconds"], facts["level2_seconds"], "Two levels, first order"
    cases = {
        "level 1 interval": (young_seconds(first, mtbf_seconds=mtbf / share), "level1_interval_seconds"),
        "level 2 interval": (young_seconds(second, mtbf_seconds=mtbf / (1 - share)), "level2_interval_seconds"),
        "single level interval": (young_seconds(second, mtbf_seconds=mtbf), "single_level_interval_seconds"),
        "single level waste": (first_order_waste_fraction(second, mtbf_seconds=mtbf), "single_level_waste"),
        "two-level waste": (
            first_order_waste_fraction(first, mtbf_seconds=mtbf / share)
            + first_order_waste_fraction(second, mtbf_seconds=mtbf / (1 - share)),
            "waste",
        ),
    }
    for fact, (value, key) in cases.items():
        yield Comparison(fact, float(value), facts[key], 1e-3, source)


def _count(model: CatalogModel) -> int:
    return num_parameters(inventory_of(model.architecture))
