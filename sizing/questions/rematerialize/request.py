"""Request for layers to compute again: a scenario with its batch, and the memory that its GPUs have."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from sizing.questions.headroom import HeadroomFraction
from sizing.scenario import Scenario
from sizing.strict_model import InputModel
from sizing.training.memory_search import HEADROOM_FRACTION
from sizing.units import ByteCount

REFERENCE_REMATERIALIZATION: dict[str, Any] = {
    "scenario": {
        "model": {"preset": "gpt3-175b"},
        "parallelism": {"tensor": 8, "pipeline": 8, "data": 16},
        "training": {"sequence_length": 2048, "micro_batch_size": 2, "global_batch_size": 1536},
        "cluster": {"node": "dgx-a100"},
    }
}
"""GPT-3 as Korthikanti et al. 2022, arXiv 2205.05198, table 3, run it, with twice the micro-batch."""


class RematerializationRequest(InputModel):
    """A scenario whose layers may be computed again, and how much memory they may take."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_REMATERIALIZATION]})

    scenario: Scenario = Field(
        description="Model, batch, degrees and nodes. Its training.recomputation does not count, "
        "but for the scores of attention: with none they are kept."
    )
    gpu_memory_bytes: ByteCount | None = Field(
        None,
        description="Bytes that state and activations of a rank must fit. Default: those of the node in the catalog.",
    )
    headroom_fraction: HeadroomFraction = Field(
        HEADROOM_FRACTION, description="Fraction of a GPU's memory kept free for what is not counted."
    )
