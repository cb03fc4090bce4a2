"""Request for the effects of training techniques: a scenario, and which kinds of techniques to try on it."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from sizing.scenario import Scenario
from sizing.strict_model import InputModel
from sizing.training.techniques import Kind

REFERENCE_TECHNIQUES: dict[str, Any] = {
    "scenario": {
        "model": {"preset": "llama-3.1-70b"},
        "training": {
            "framework": "megatron",
            "distributed_optimizer": True,
            "sequence_length": 8192,
            "micro_batch_size": 1,
            "global_batch_size": 512,
        },
        "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
        "checkpoint": {"format": "torch-dist", "mode": "async", "interval_seconds": "30min"},
        "cluster": {"node": "dgx-h100", "num_gpus": 512},
        "storage": {"profile": {"write_bytes_per_second": "200 GB/s", "read_bytes_per_second": "200 GB/s"}},
    }
}
"""A run of 70B on 512 GPUs."""


class TechniquesRequest(InputModel):
    """A scenario, and which techniques to try on it."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_TECHNIQUES]})

    scenario: Scenario = Field(description="Scenario that each technique is tried on, one at a time.")
    kinds: tuple[Kind, ...] = Field(
        (), max_length=20, description="Kinds of techniques to try. Default: all of the catalog."
    )
    names: tuple[str, ...] = Field(
        (), max_length=100, description="Names of techniques to try, of these kinds. Default: all of them."
    )
