"""Published throughputs as scenarios: Megatron-Bridge and NeMo AutoModel, and MegaScale's 530B."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.errors import InvalidInput
from sizing.published import published
from sizing.report import answer
from sizing.validation.comparison import Comparison, Source
from sizing.validation.measured_runs import Row, megascale_scenario

WITHIN = 0.2
"""As step_times.WITHIN."""

_BRIDGE = Source("observation", "Megatron-Bridge, performance summaries: tokens per second and GPU")
_AUTOMODEL = Source("observation", "NeMo AutoModel, performance summary, on H100: tokens per second and GPU")
_OF_530B = Source(
    "observation", "MegaScale, arXiv 2402.15627, figure 9, 530B on Ampere: MFU of its Megatron-LM baseline"
)
_SIMULATED = Source("observation", "SimuMax on A100 PCIe with Megatron-LM: GPU memory")

_PRESETS = {
    "LLAMA3_8B": "llama-3-8b",
    "LLAMA3_70B": "llama-3-70b",
    "LLAMA3.1_405B": "llama-3.1-405b",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "GPT OSS 120B": "gpt-oss-120b",
    "Kimi_K2": "kimi-k2",
    "DeepSeekV3": "deepseek-v3",
    "DeepSeek V3 671B": "deepseek-v3",
    "Kimi K2": "kimi-k2",
    "Qwen3 MoE 30B": "qwen3-30b-a3b",
    "GPT-OSS 20B": "gpt-oss-20b",
    "GPT-OSS 120B": "gpt-oss-120b",
    "Llama3 70B": "llama-3-70b",
}
_NODES = {"DGX-H100": "dgx-h100", "DGX-B200": "dgx-b200", "DGX-GB200": "dgx-gb200"}
_PRECISIONS = {
    "BF16": "bf16-mixed",
    "bf16": "bf16-mixed",
    "FP8": "fp8-mixed",
    "FP8-CS": "fp8-mixed",
    "FP8-CS (FP8-MX)": "fp8-mixed",
    "FP8-MX": "mxfp8-mixed",
    "MXFP8": "mxfp8-mixed",
    "NVFP4": "nvfp4-mixed",
}
"""A row with a second precision in parentheses is compared by its first."""
_EXPERTS = ("Qwen3", "GPT", "Kimi", "DeepSeek")
_UNEVEN = "its layers do not cut into equal chunks, and how they were cut is not published"
_ROUTING = "routing and copying of tokens among experts take time that is not counted; later releases are faster"
_KERNELS = "which kernels it runs is not published; torch's eager ones are taken, which move values more often"
_RACK = "what products reach of the peak of these GPUs is an assumption, taken from B200"
_FOUR_BITS = "the speed of products in NVFP4 is that of a layer of a 5B model; larger matrices gain more"
_LARGE_MATRICES = "its matrices are large, and GPUs achieve more of their peak with them than the median that is taken"
_OVERLAP = "exchanges of tokens among experts overlap with computing there; here all of it is waited for"
_AGAIN = "what it computes again is not published; the default is taken"
_DEGREES = ("tensor", "pipeline", "context", "expert", "virtual_pipeline")


def scenario_of(row: Row, framework: str) -> Row | str:
    """The scenario of a row, with the default recomputation; or why there is none."""
    model, node, precision = _PRESETS.get(row["model"]), _NODES.get(row["system"]), _PRECISIONS.get(row["precision"])
    if model is None:
        return "no such model is in the catalog, or the release changes how its experts take tokens"
    if node is None:
        return "the rates of this GPU are not in the catalog"
    if precision is None:
        return "its precision is not published"
    if row["model"].startswith(_EXPERTS) and not isinstance(row.get("expert"), int):
        return "over how many ranks its experts lie is not published"
    if any(isinstance(row.get(name), str) and row[name] != "n/a" for name in (*_DEGREES, "fsdp")):
        return "its degrees differ from precision to precision"
    degrees = {name: row[name] if isinstance(row.get(name), int) else 1 for name in _DEGREES}
    if degrees["expert"] > 1 and framework == "megatron":
        degrees["expert_tensor"] = 1
    cut = degrees["tensor"] * degrees["pipeline"] * degrees["context"]
    training = {
        "framework": framework,
        "precision": precision,
        "sequence_length": row["sequence_length_tokens"],
        "micro_batch_size": row["micro_batch_sequences"],
        "global_batch_size": row["global_batch_sequences"],
    }
    return {
        "model": {"preset": model},
        "training": training | ({"distributed_optimizer": True} if framework == "megatron" else {}),
        "parallelism": degrees | {"data": row["num_gpus"] // cut},
        "checkpoint": {"format": "fsdp-dtensor"} if framework == "megatron" and row.get("fsdp") else {},
        "cluster": {"node": node},
    }


def published_throughputs() -> Iterator[Comparison]:
    """Each run within 20 %, or why not, or why there is no prediction."""
    facts = published("measured_gpu_memory")
    for row in facts["megatron_bridge_throughput"]["rows"]:
        release = row["source"].split('"')[1].removesuffix(" Container")
        yield _compared(_BRIDGE, row, scenario_of(row, "megatron"), f", {release}")
    for row in facts["automodel_throughput"]["rows"]:
        yield _compared(_AUTOMODEL, row, scenario_of(row, "fsdp2"), "")
    yield from _megascale()
    for row in facts["simumax_a100_pcie"]["rows"]:
        fact = f"error of the simulator, %: {row['model']} {row['parallelism']}, {row['micro_batches']} microbatches"
        because = "only the simulator's error is printed; what was measured is in a picture"
        yield _SIMULATED.not_compared(fact, row["memory_error_percent_stated"], because=because)


def _compared(source: Source, row: Row, document: Row | str, release: str) -> Comparison:
    said, experts = row["tokens_per_second_per_gpu"], row["model"].startswith(_EXPERTS)
    degrees = "-".join(str(row.get(name)) for name in _DEGREES)
    sequences = f"{row['micro_batch_sequences']} of {row['global_batch_sequences']} sequences"
    fact = f"{row['model']}, {row['num_gpus']} {row['system']}, {row['precision']}, {degrees}, {sequences}{release}"
    if isinstance(document, str):
        return source.not_compared(fact, said, because=document)
    try:
        step = answer(document).training.step
    except InvalidInput:
        return source.not_compared(fact, said, because=_UNEVEN)
    assert step is not None  # noqa: S101  all of these name their GPU and batch
    found = step.tokens_per_second_per_gpu
    miss = _too_fast(experts) if found > said else _too_slow(row, document, experts)
    return source.compared(fact, found, said, within=WITHIN, miss="" if abs(found / said - 1.0) <= WITHIN else miss)


def _too_fast(experts: bool) -> str:
    return _ROUTING if experts else _AGAIN


def _too_slow(row: Row, document: Row, experts: bool) -> str:
    if row["precision"] == "NVFP4":
        return _FOUR_BITS
    if row["system"] == "DGX-GB200":
        return _RACK
    if document["training"]["framework"] != "megatron":
        return _KERNELS
    return _OVERLAP if experts else _LARGE_MATRICES


def _megascale() -> Iterator[Comparison]:
    """105 layers on 35 stages of 3 chunks; which label belongs to which point is read from the order of the text."""
    facts = published("measured_gpu_memory")["megascale_175b"]
    for row in facts["rows"]:
        if row["model"] != "gpt-530b":
            continue
        document = megascale_scenario(row)
        shape = document["model"]["architecture"]
        shape |= {"hidden_size": 20_480, "num_layers": 105, "num_attention_heads": 160}
        data = row["num_gpus"] // (8 * 35)
        document["parallelism"] = {"tensor": 8, "pipeline": 35, "virtual_pipeline": 3, "data": data}
        step = answer(document).training.step
        assert step is not None  # noqa: S101  its GPU and batch are named
        said = row["mfu_percent_megatron_lm"]
        yield _OF_530B.compared(f"MFU, %: on {row['num_gpus']} GPUs", 100 * step.mfu_fraction, said, within=WITHIN)
