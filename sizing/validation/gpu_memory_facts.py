"""Comparisons of GPU memory with published facts: state and activations on a GPU, and bubbles."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.layout import Parallelism
from sizing.model import catalog
from sizing.published import published
from sizing.training.layer_activations import LayerShape
from sizing.training.schedules.one_way import bubble_fraction
from sizing.validation.comparison import Comparison, Source
from sizing.validation.measured_runs import predicted_memory

_ESTIMATORS = Source("tool", "State on a GPU, as Megatron-LM's, SimuMax' and llm-analysis' estimators say")
_RECOMPUTED = Source("arithmetic", "State on a GPU, with what the estimators leave out reckoned in")
_KORTHIKANTI = Source("arithmetic", "Korthikanti et al. 2022, arXiv 2205.05198: activations by its formulas")
_ZERO = Source("arithmetic", "Rajbhandari et al. 2020, arXiv 1910.02054: ZeRO's state on a GPU by its formulas")
_BUBBLES = Source("arithmetic", "Narayanan et al. 2021, section 2.2: bubbles by its formula")


def gpu_memory_facts() -> Iterator[Comparison]:
    """Compare state on the fullest GPU, the attention scores that a layer keeps, and the idle time of a pipeline."""
    yield from _gpu_state()
    yield from _zero()
    yield from _scores()
    for row in published("training_techniques")["pipeline_checks"]:
        of_total = bubble_fraction(num_stages=row["p"], num_microbatches=row["m"])
        for key, share in (("share_of_total", of_total), ("share_of_ideal", of_total / (1 - of_total))):
            fact = f"bubble, {row['p']} stages, {row['m']} microbatches: {key.replace('_', ' ')}"
            yield _BUBBLES.compare(fact, share, row[key], within=5e-3)


def _gpu_state() -> Iterator[Comparison]:
    """Compare with estimators and, where they leave something out, with the figure that includes it."""
    formats = {"plain": "megatron", "distributed": "megatron-distributed-optimizer"}
    for row in published("state_memory_per_gpu")["rows"]:
        name = row["model"].split()[0]
        parallelism = {key: row[key] for key in ("tensor", "pipeline", "expert", "data") if key in row}
        for kind, format_name in formats.items():
            document = {
                "model": {"preset": name},
                "training": {"distributed_optimizer": kind == "distributed"},
                "parallelism": parallelism,
                "checkpoint": {"format": format_name},
            }
            predicted = predicted_memory(document).gpu_state_bytes / 1e9
            fact = f"state GB per GPU of {name}, {kind} optimizer"
            whole = row["plain_gb" if kind == "plain" else "distributed_optimizer_gb"]
            estimate = row.get(f"estimators_{kind}_gb", whole)
            yield _ESTIMATORS.compare(fact, predicted, estimate, within=1e-3, miss=row.get("note", ""))
            if estimate != whole:
                yield _RECOMPUTED.compare(fact, predicted, whole, within=1e-3)


def _zero() -> Iterator[Comparison]:
    """Compare the paper's example: 7.5 billion parameters in mixed precision on 64 GPUs."""
    facts = published("zero_model_state_memory")
    for stage, key in enumerate(("dp", "stage1", "stage2", "stage3")):
        document = {
            "model": {"num_parameters": 7.5e9},
            "training": {"framework": "deepspeed", "precision": "fp16-mixed"},
            "parallelism": {"data": 64, "zero_stage": stage},
        }
        predicted = predicted_memory(document).gpu_state_bytes / 1e9
        yield _ZERO.compare(f"state GB per GPU of 7.5B, ZeRO stage {stage}", predicted, facts[key], within=1e-9)


def _scores() -> Iterator[Comparison]:
    """Compare the attention scores, 5 a s/h beside 34, which selective recomputation saves."""
    checks = published("training_techniques")["activation_bytes_per_layer"]["checks"]
    for preset, name, key in (("gpt3-175b", "gpt3", "gpt3"), ("megatron-530b", "mt-nlg", "mtnlg_530b")):
        (architecture,) = filter(None, [catalog()[preset].architecture])
        kept = LayerShape(architecture, Parallelism(), 2).dense
        scores = 2_048 * kept.scores
        ratio = scores / architecture.hidden_size
        yield _KORTHIKANTI.compare(f"5 a s/h of {name}", ratio, checks[f"{key}_5as_over_h"], within=1e-9)
        share = scores / (scores + kept.split + kept.whole)
        fact = f"share that selective recomputation saves {name}"
        yield _KORTHIKANTI.compare(fact, share, checks["selective_saves"][name], within=1e-2)
