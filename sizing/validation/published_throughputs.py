"""Comparisons of published throughputs: Megatron-Bridge, NeMo AutoModel, Google's TPU recipes, MegaScale's 530B."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.published import published
from sizing.validation.comparison import Comparison, Source
from sizing.validation.measured_runs import TENSOR_OVERLAP, Row, megascale_scenario, predicted_step

WITHIN = 0.2
"""Tolerance, the same as step_times.WITHIN."""

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
    "Llama3.1 8B": "llama-3.1-8b",
    "Llama3.1 70B": "llama-3.1-70b",
    "Llama3.1 405B": "llama-3.1-405b",
    "Qwen3 235B": "qwen3-235b-a22b",
}
_NODES = {
    "DGX-H100": "dgx-h100",
    "DGX-B200": "dgx-b200",
    "DGX-B300": "dgx-b300",
    "DGX-GB200": "dgx-gb200",
    "DGX-GB300": "dgx-gb300",
    "TPU v5p": "tpu-v5p",
    "TPU v6e": "tpu-v6e",
    "TPU7x": "tpu7x",
}
_PRECISIONS = {
    "BF16": "bf16-mixed",
    "bf16": "bf16-mixed",
    "FP8": "fp8-mixed",
    "fp8_full": "fp8-mixed",
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
_KEPT = "less is computed again than all of a layer, and what products reach of the peak of these chips is a guess"
_PODS = "exchanges between pods take no time: the rate of their network is not published"
_COPIES = "routing and copying of tokens among experts take time that is not counted"
_DEGREES = ("tensor", "pipeline", "context", "expert", "virtual_pipeline")


@dataclass(frozen=True)
class _Recipes:
    """Training settings of a source's runs that its rows leave out.

    `fsdp_format`: the checkpoint format of rows with FSDP, where it is not the framework's own. `cuts_experts`: whether
    experts are cut by the tensor degree. `recomputes`: modules that are computed again, by model. `slow_because`,
    `slow_experts_because`: why models are predicted too slow; `fast_because`, `fast_experts_because`: too fast.
    """

    source: Source
    training: Row
    slow_because: str
    slow_experts_because: str
    fast_because: str = _AGAIN
    fast_experts_because: str = _ROUTING
    fsdp_format: str | None = None
    cuts_experts: bool = True
    recomputes: Mapping[str, Sequence[str]] = field(default_factory=dict)


_BRIDGE = _Recipes(
    Source("observation", "Megatron-Bridge, performance summaries: tokens per second and GPU"),
    {
        "framework": "megatron",
        "distributed_optimizer": True,
        "achieved": {"overlap": {"gradients": 1.0, "tensor": TENSOR_OVERLAP}},
    },
    slow_because=_LARGE_MATRICES,
    slow_experts_because=_OVERLAP,
    fsdp_format="fsdp-dtensor",
    cuts_experts=False,
    # scripts/performance/configs/deepseek/deepseek_workload_base_configs.py @0426418, on GPUs of Blackwell's kind
    recomputes={"deepseek-v3": ("mla-up-proj",)},
)
_AUTOMODEL = _Recipes(
    Source("observation", "NeMo AutoModel, performance summary, on H100: tokens per second and GPU"),
    {"framework": "fsdp2"},
    slow_because=_KERNELS,
    slow_experts_because=_KERNELS,
)


_TPU = _Recipes(
    Source("observation", "Google's recipes of MaxText on TPU: tokens per second and chip"),
    {"framework": "maxtext", "recomputation": "full"},
    slow_because=_KEPT,
    slow_experts_because=_KEPT,
    fast_because=_PODS,
    fast_experts_because=_COPIES,
)


def _scenario_of(row: Row, recipes: _Recipes) -> Row | str:
    """Return the scenario of a row, with the default recomputation; or the reason why there is none."""
    model, node, precision = _PRESETS.get(row["model"]), _NODES.get(row["system"]), _PRECISIONS.get(row["precision"])
    if model is None:
        return "no such model is in the catalog, or the release changes how its experts take tokens"
    if node is None:
        return "the rates of this GPU are not in the catalog"
    if precision not in FRAMEWORKS[recipes.training["framework"]].keeps:
        no_weights = "what its framework keeps of weights in 8 bits is not in the model"
        return no_weights if precision else "its precision is not published"
    if row["model"].startswith(_EXPERTS) and not isinstance(row.get("expert"), int):
        return "over how many ranks its experts lie is not published"
    if any(isinstance(row.get(name), str) and row[name] != "n/a" for name in (*_DEGREES, "fsdp")):
        return "its degrees differ from precision to precision, or are of half chips"
    degrees = {name: row[name] if isinstance(row.get(name), int) else 1 for name in _DEGREES}
    if degrees["expert"] > 1 and not recipes.cuts_experts:
        degrees["expert_tensor"] = 1
    cut = degrees["tensor"] * degrees["pipeline"] * degrees["context"]
    training = recipes.training | {
        "precision": precision,
        "sequence_length": row["sequence_length_tokens"],
        "micro_batch_size": row["micro_batch_sequences"],
        "global_batch_size": row["global_batch_sequences"],
        **({"recompute_modules": recipes.recomputes[model]} if model in recipes.recomputes else {}),
    }
    return {
        "model": {"preset": model},
        "training": training,
        "parallelism": degrees | {"data": row["num_gpus"] // cut},
        "checkpoint": {"format": recipes.fsdp_format} if recipes.fsdp_format and row.get("fsdp") else {},
        "cluster": {"node": node},
    }


def throughput_rows() -> Iterator[tuple[str, Row, float]]:
    """List publisher, scenario and tokens per second and GPU of each run that has a scenario."""
    facts = published("measured_gpu_memory")
    for publisher, key, recipes in (
        ("Megatron-Bridge", "megatron_bridge_throughput", _BRIDGE),
        ("NeMo AutoModel", "automodel_throughput", _AUTOMODEL),
        ("Google's TPU recipes", "tpu_recipes_throughput", _TPU),
    ):
        for row in facts[key]["rows"]:
            document = _scenario_of(row, recipes)
            if not isinstance(document, str):
                yield publisher, document, row["tokens_per_second_per_gpu"]


def published_throughputs() -> Iterator[Comparison]:
    """Compare each run within 20 %, or say why it misses or has no prediction."""
    facts = published("measured_gpu_memory")
    for row in facts["megatron_bridge_throughput"]["rows"]:
        release = row["source"].split('"')[1].removesuffix(" Container")
        yield _compare(row, _BRIDGE, release=f", {release}")
    for row in facts["automodel_throughput"]["rows"]:
        yield _compare(row, _AUTOMODEL)
    for row in facts["tpu_recipes_throughput"]["rows"]:
        yield _compare(row, _TPU)
    yield from _megascale()
    for row in facts["simumax_a100_pcie"]["rows"]:
        fact = f"error of the simulator, %: {row['model']} {row['parallelism']}, {row['micro_batches']} microbatches"
        because = "only the simulator's error is printed; what was measured is in a picture"
        yield _SIMULATED.list_unpredicted(fact, row["memory_error_percent_stated"], because=because)


def _compare(row: Row, recipes: _Recipes, *, release: str = "") -> Comparison:
    source, document = recipes.source, _scenario_of(row, recipes)
    measured, has_experts = row["tokens_per_second_per_gpu"], row["model"].startswith(_EXPERTS)
    degrees = "-".join(str(row.get(name)) for name in _DEGREES)
    sequences = f"{row['micro_batch_sequences']} of {row['global_batch_sequences']} sequences"
    fact = f"{row['model']}, {row['num_gpus']} {row['system']}, {row['precision']}, {degrees}, {sequences}{release}"
    if isinstance(document, str):
        return source.list_unpredicted(fact, measured, because=document)
    try:
        step = predicted_step(document)
    except InvalidInput:
        return source.list_unpredicted(fact, measured, because=_UNEVEN)
    predicted = step.tokens_per_second_per_gpu
    if abs(predicted / measured - 1.0) <= WITHIN:
        miss = ""
    elif predicted > measured:
        miss = recipes.fast_experts_because if has_experts else recipes.fast_because
    elif row["precision"] == "NVFP4":
        miss = _FOUR_BITS
    elif row["system"] in ("DGX-B300", "DGX-GB200", "DGX-GB300"):
        miss = _RACK
    else:
        miss = recipes.slow_experts_because if has_experts else recipes.slow_because
    return source.compare(fact, predicted, measured, within=WITHIN, miss=miss)


def _megascale() -> Iterator[Comparison]:
    """Compare 105 layers on 35 stages of 3 chunks. Labels are matched to points by the order of the text."""
    facts = published("measured_gpu_memory")["megascale_175b"]
    for row in facts["rows"]:
        if row["model"] != "gpt-530b":
            continue
        document = megascale_scenario(row)
        shape = document["model"]["architecture"]
        shape |= {"hidden_size": 20_480, "num_layers": 105, "num_attention_heads": 160}
        data = row["num_gpus"] // (8 * 35)
        document["parallelism"] = {"tensor": 8, "pipeline": 35, "virtual_pipeline": 3, "data": data}
        step = predicted_step(document)
        measured = row["mfu_percent_megatron_lm"]
        yield _OF_530B.compare(f"MFU, %: on {row['num_gpus']} GPUs", 100 * step.mfu_fraction, measured, within=WITHIN)
