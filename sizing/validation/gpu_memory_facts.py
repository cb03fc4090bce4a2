"""Whether a layout runs, against published facts: state and activations on a GPU, bubbles."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.layout import Parallelism
from sizing.model import catalog
from sizing.published import published
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.training.activations import LayerShape
from sizing.training.schedules import bubble_fraction
from sizing.validation.comparison import Comparison


def gpu_memory_facts() -> Iterator[Comparison]:
    """State on the fullest GPU, what a layer keeps of attention's scores, and how long a pipeline idles."""
    yield from _gpu_state()
    yield from _scores()
    yield from _bubbles()


def _gpu_state() -> Iterator[Comparison]:
    formats = {"plain_gb": "megatron", "distributed_optimizer_gb": "megatron-distributed-optimizer"}
    for row in published("state_memory_per_gpu")["rows"]:
        name = row["model"].split()[0]
        parallelism = {key: row[key] for key in ("tensor", "pipeline", "expert", "data") if key in row}
        for key, format_name in formats.items():
            document = {"model": {"preset": name}, "parallelism": parallelism, "checkpoint": {"format": format_name}}
            yield Comparison(
                f"state GB per GPU of {name}, {key.removesuffix('_gb').replace('_', ' ')}",
                answer(scenario_from(document)).training.gpu_state_bytes / 1e9,
                row[key],
                1e-3,
                "Megatron-LM, SimuMax and llm-analysis",
            )


def _scores() -> Iterator[Comparison]:
    """The scores of attention, 5 a s/h beside 34, are what selective recomputation saves."""
    checks, source = published("training_techniques")["activation_bytes_per_layer"]["checks"], "Korthikanti et al. 2022"
    for preset, name, key in (("gpt3-175b", "gpt3", "gpt3"), ("megatron-530b", "mt-nlg", "mtnlg_530b")):
        architecture = catalog()[preset].architecture
        kept = LayerShape(architecture, Parallelism(), 2).dense
        scores = 2_048 * kept.scores
        ratio = scores / architecture.hidden_size
        yield Comparison(f"5 a s/h of {name}", ratio, checks[f"{key}_5as_over_h"], 1e-9, source)
        saved = scores / (scores + kept.split + kept.whole)
        truth = checks["selective_saves"][name]
        yield Comparison(f"share that selective recomputation saves {name}", saved, truth, 1e-2, source)


def _bubbles() -> Iterator[Comparison]:
    for row in published("training_techniques")["pipeline_checks"]:
        share = bubble_fraction(num_stages=row["p"], num_microbatches=row["m"])
        found = {"share_of_total": share, "share_of_ideal": share / (1 - share)}
        for key, value in found.items():
            fact = f"bubble, {row['p']} stages, {row['m']} microbatches: {key.replace('_', ' ')}"
            yield Comparison(fact, value, row[key], 5e-3, "Narayanan et al. 2021, section 2.2")
