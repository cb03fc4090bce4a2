"""Scenarios of published training runs that measured memory or time."""

from __future__ import annotations

import functools
import json
from typing import Any

from sizing.model import catalog
from sizing.published import published
from sizing.scenario import scenario_from
from sizing.sized_layout import size_layout
from sizing.training import GpuMemory, StepTime
from sizing.training.gpu_rates import published_fractions
from sizing.training.overlaps import TENSOR_WHERE_ON

TORCHTITAN_SEQUENCE = 8192
"""Tokens where a table does not say: seq_len of the configurations at the commits that the tables name."""

TENSOR_OVERLAP = sum(TENSOR_WHERE_ON) / 2
"""Taken of runs whose exchanges of tensor ranks overlap with computing: how much is hidden is not published."""

POWER_LIMIT = (500 / 700, 1.0)
"""Range of what a limit of 500 of 700 W leaves of a GPU's computing: from as much as of its power to all of it."""

_LIMITED_H100 = {
    name: published_fractions()["h100"][name] * sum(POWER_LIMIT) / 2 for name in ("matrices", "experts")
} | {
    "attention": published_fractions()["h100"]["attention_of_torch"] * sum(POWER_LIMIT) / 2,
    "memory": published_fractions()["h100"]["memory"] * 2.4 / 3.35,
}
"""Rates of torchtitan's H100, which its table describes: a limit of 500 W and 2.4 TB/s of memory."""

WITHOUT_OVERLAP = {"overlap": {"pipeline": 0.0}}
"""Megatron-LM of 2021, and MegaScale's baseline of 2023, which lacks the overlap that the paper adds."""

_PRECISIONS = {"bf16": "bf16-mixed", "float8": "fp8-mixed", "mxfp8": "mxfp8-mixed", "nvfp4": "nvfp4-mixed"}

Row = dict[str, Any]


def predicted_memory(document: Row) -> GpuMemory:
    """Predict memory and step of a run, the `training` block of its report, without all else that a report weighs.

    Raises InvalidInput where its layout is refused.
    """
    return _predicted_memory(json.dumps(document))


def predicted_step(document: Row) -> StepTime:
    """Predict the step of a run that names its GPU and batch. Raises InvalidInput where its layout is refused."""
    step = predicted_memory(document).step
    assert step is not None  # noqa: S101  all of these name their GPU and batch
    return step


@functools.cache
def _predicted_memory(document: str) -> GpuMemory:
    return size_layout(scenario_from(json.loads(document))).memory


def torchtitan_rows() -> list[Row]:
    """List the runs of torchtitan: on H100, then on H200 and Blackwell."""
    facts = published("measured_gpu_memory")
    return [*facts["torchtitan_llama31_h100"]["rows"], *facts["torchtitan_other"]["rows"]]


def simumax_rows() -> list[Row]:
    """List the runs of Megatron-LM on B200, whose models have only some of their layers."""
    rows: list[Row] = published("measured_gpu_memory")["simumax_b200"]["rows"]
    return rows


def case_name(row: Row) -> str:
    """Name a run of SimuMax: model, layers kept, degrees, microbatches."""
    return str(row["case"]).removesuffix("_cef").replace("_", " ")


def run_name(row: Row) -> str:
    """Name a run of torchtitan in words."""
    degrees = " ".join(f"{name} {row[name]}" for name in ("tensor", "pipeline", "context") if row.get(name, 1) > 1)
    precision = row["linear_precision"].split()[0]
    tokens = row.get("sequence_length_tokens") or row.get("sequence_length_tokens_derived") or "8192"
    compiled = " compiled" if row["torch_compile"] else ""
    asynchronous = " async" if row.get("async_tensor_parallel") else ""
    return f"{row['model']} {row['num_gpus']} GPUs {degrees} x {tokens} {precision}{compiled}{asynchronous}".replace(
        "  ", " "
    )


def torchtitan_scenario(row: Row) -> Row:
    """Return the scenario of a row of torchtitan's tables.

    A pipeline has as many microbatches as stages (torchtitan 9dec370, pipeline_parallel_microbatches). The loss is not
    compiled there (train.py), half a year later it is (e7c0cae, components/loss.py).
    """
    stages = row.get("pipeline", 1)
    of_products = row["linear_precision"].split()[0]
    training = {
        "framework": "torchtitan",
        "precision": _PRECISIONS[of_products],
        "sequence_length": row.get("sequence_length_tokens") or TORCHTITAN_SEQUENCE,
        "micro_batch_size": row["local_batch_sequences"] // stages,
        "global_batch_size": row["local_batch_sequences"] * row["fsdp"],
        "recomputation": row.get("activation_checkpointing", "selective"),
        "compile": row["torch_compile"],
    }
    if "activation_checkpointing" in row:
        training["loss"] = "eager"
    achieved = dict(_LIMITED_H100) if "activation_checkpointing" in row else {}
    if row.get("async_tensor_parallel"):
        achieved |= {"overlap": {"tensor": TENSOR_OVERLAP}}
    training["achieved"] = achieved
    degrees = {name: row.get(name, 1) for name in ("tensor", "pipeline", "context")}
    return {
        "model": {"preset": row["model"]},
        "training": training,
        "parallelism": degrees | {"data": row["fsdp"]},
        "cluster": {"node": _torchtitan_node(row)},
    }


def _torchtitan_node(row: Row) -> str:
    """Choose the node of a run. A GPU without a name is taken by the memory that its percentages imply."""
    if row.get("gpu", "").startswith("H200"):
        return "dgx-h200"
    return "dgx-h100" if "activation_checkpointing" in row else "dgx-b200"


def simumax_scenario(row: Row) -> Row:
    """Return the scenario of a row of SimuMax. `simumax_b200.common` says what all its rows have in common."""
    architecture = catalog()[row["model"]].architecture
    assert architecture is not None  # noqa: S101  all of its models are described layer by layer
    shape = architecture.model_dump(exclude_unset=True) | {"num_layers": row["layers_kept"]}
    if row["model"].startswith("deepseek"):
        shape |= {"first_dense_layers": 1, "num_mtp_layers": None}
    training = {
        "distributed_optimizer": True,
        "sequence_length": row["sequence_length_tokens"],
        "micro_batch_size": 1,
        "global_batch_size": row["micro_batches"] * row["data"],
        "recomputation": "none",
        "loss": "fused",
    }
    degrees = {name: row[name] for name in ("tensor", "pipeline", "context", "expert", "data")}
    cluster = {"node": "dgx-b200"}
    return {"model": {"architecture": shape}, "training": training, "parallelism": degrees, "cluster": cluster}


def megatron_table_scenario(row: Row) -> Row:
    """Return a row of Narayanan et al. 2021, table 1: fp16, full recomputation, no sequence parallelism."""
    shape = {name: row[name] for name in ("hidden_size", "num_layers", "num_attention_heads")}
    training = {
        "precision": "fp16-mixed",
        "sequence_length": 2048,
        "micro_batch_size": 1,
        "global_batch_size": row["global_batch_size"],
        "recomputation": "full",
        "attention": "eager",
        "sequence_parallel": False,
        "achieved": WITHOUT_OVERLAP,
    }
    degrees = {name: row[f"{name}_parallel"] for name in ("tensor", "pipeline", "data")}
    return {
        "model": {"architecture": {"family": "gpt2", "vocab_size": 51_200, "max_positions": 2048} | shape},
        "training": training,
        "parallelism": degrees,
        "cluster": {"node": "dgx-a100"},
    }


def megatron_table_seconds(row: Row) -> float:
    """Return the seconds of a step, F/(n X): F = 96 B s l h^2 (1 + s/(6 h) + V/(16 l h)) operations on n GPUs of X.

    Source: Narayanan et al. 2021, arXiv 2104.04473, equation 3, with recomputation.

    >>> from sizing.published import published
    >>> round(megatron_table_seconds(published("megatron_table1")["rows"][-1]), 1)
    102.6
    """
    layers, hidden, sequence, vocabulary = row["num_layers"], row["hidden_size"], 2048, 51_200
    further = 1 + sequence / (6 * hidden) + vocabulary / (16 * layers * hidden)
    operations = 96 * row["global_batch_size"] * sequence * layers * hidden**2 * further
    return float(operations / (row["num_gpus"] * row["achieved_teraflops_per_gpu"] * 1e12))


def megascale_rows() -> list[Row]:
    """List the rows of MegaScale's baseline. Its own rows change the model and the optimizer."""
    rows = published("measured_gpu_memory")["megascale_175b"]["rows"]
    return [row for row in rows if row.get("system") == "Megatron-LM"]


def megascale_scenario(row: Row) -> Row:
    """Return GPT-3, vocabulary 64,000, tensor 8, pipeline 8 of 6 chunks. Selective recomputation is a guess."""
    training = {
        "distributed_optimizer": True,
        "sequence_length": 2048,
        "micro_batch_size": 1,
        "global_batch_size": row["global_batch_sequences"],
        "recomputation": "selective",
        "achieved": WITHOUT_OVERLAP,
    }
    shape = {"family": "gpt2", "hidden_size": 12_288, "num_layers": 96, "num_attention_heads": 128}
    return {
        "model": {"architecture": shape | {"vocab_size": 64_000, "max_positions": 2048}},
        "training": training,
        "parallelism": {"tensor": 8, "pipeline": 8, "virtual_pipeline": 6, "data": row["num_gpus"] // 64},
        "cluster": {"node": "dgx-a100"},
    }
