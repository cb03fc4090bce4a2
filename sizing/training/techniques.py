"""Catalog of training techniques that decide memory and idle time: rows of `published/training_techniques.json`."""

from __future__ import annotations

import functools
from typing import Literal

from pydantic import Field

from sizing.published import published
from sizing.strict_model import StrictModel
from sizing.training.schedules import SCHEDULES

Kind = Literal[
    "pipeline-schedule",
    "activations",
    "rematerialization",
    "activation-offload",
    "weight-offload",
    "gradient-compression",
    "low-precision-optimizer",
    "large-batch",
    "heterogeneous-pipeline",
]

_KEYS: dict[Kind, str] = {
    "rematerialization": "rematerialization",
    "activation-offload": "activation_offload",
    "weight-offload": "weight_offload",
    "gradient-compression": "gradient_compression",
    "low-precision-optimizer": "low_precision_optimizers",
    "large-batch": "large_batch",
    "heterogeneous-pipeline": "heterogeneous_pipelines",
}
"""Keys of the published lists whose rows are a technique, its effect and its source, by kind."""

_SCENARIO = {
    "gpipe": "training.schedule: gpipe",
    "1f1b / dapple": "training.schedule: 1f1b",
    "interleaved 1f1b": "training.schedule: interleaved",
    "none": "training.recomputation: none",
    "tensor": "training.recomputation: none, sequence_parallel: false",
    "tensor sequence": "training.recomputation: none, sequence_parallel: true",
    "tensor selective": "training.recomputation: selective, sequence_parallel: false",
    "tensor sequence selective": "training.recomputation: selective, sequence_parallel: true",
    "full recompute": "training.recomputation: full, sequence_parallel: false",
    "vDNN": "training.offload.activations_fraction: 1",
    "ZeRO-Offload": "training.offload.optimizer: host",
    "ZeRO-Infinity": "training.offload.optimizer: nvme, offload.weights: host",
    "TFLMS, AutoSwap for weights": "training.offload.weights: host",
    "top-k sparsification": "training.gradient_compression.method: top-k",
    "QSGD": "training.gradient_compression.method: qsgd",
    "PowerSGD": "training.gradient_compression.method: powersgd",
    "1-bit Adam": "training.gradient_compression.method: 1-bit-adam",
    "8-bit Adam": "training.optimizer: adam-8bit",
    "4-bit Adam": "training.optimizer: adam-4bit",
}


class Technique(StrictModel):
    """A published technique. Formulas are in p stages, m microbatches, v chunks per stage and P parameters."""

    name: str = Field(description="Short name of the technique in its paper.")
    kind: Kind = Field(
        description="What the technique changes: the pipeline's order, what activations keep, where state lies, or "
        "its precision."
    )
    source: str = Field(description="Paper or documentation that the figures come from.")
    effect: str | None = Field(
        None, description="What it saves and what it costs, in words. Null when a formula says it."
    )
    bubble: str | None = Field(
        None,
        description="Fraction of a step for which a stage idles, as a formula of p stages, m microbatches, v chunks. "
        "Null when the technique is no schedule.",
    )
    in_flight: str | None = Field(
        None,
        description="Microbatches whose activations a stage holds, as a formula. "
        "Null when the technique is no schedule.",
    )
    weight_versions: str | None = Field(
        None, description="Copies of the weights that a stage holds. Null when the technique is no schedule."
    )
    activation_bytes: str | None = Field(
        None,
        description="Bytes of one layer's activations as a formula: s tokens, b sequences, h hidden size, a heads, t "
        "tensor ranks. Null when the technique leaves them alone.",
    )
    scenario: str | None = Field(
        None,
        description="Scenario fields that ask for the technique. Null when they depend on the scenario: "
        "POST /v1/techniques says them.",
    )


@functools.cache
def techniques() -> tuple[Technique, ...]:
    """Return every technique of the catalog, by kind."""
    facts = published("training_techniques")
    catalog = []
    for row in facts["pipeline_schedules"]:
        name = row["schedule"]
        catalog.append(
            Technique(
                name=name,
                kind="pipeline-schedule",
                source=row.get("source", facts["source"]),
                bubble=row["bubble"],
                in_flight=row["in_flight"],
                weight_versions=str(row["weight_versions"]),
                scenario=_SCENARIO.get(name) or (f"training.schedule: {name}" if name in SCHEDULES else None),
            )
        )
    per_layer = facts["activation_bytes_per_layer"]
    for key, formula in per_layer["formulas"].items():
        name, source = key.replace("_", " "), per_layer["source"]
        scenario = _SCENARIO.get(name)
        catalog.append(
            Technique(name=name, kind="activations", source=source, activation_bytes=formula, scenario=scenario)
        )
    for kind, key in _KEYS.items():
        limit = facts["limits"].get(key)
        for row in facts[key]:
            name, effect = row["technique"], f"{row['effect']}; {limit}" if limit else row["effect"]
            scenario = _SCENARIO.get(name)
            catalog.append(Technique(name=name, kind=kind, source=row["source"], effect=effect, scenario=scenario))
    return tuple(catalog)
