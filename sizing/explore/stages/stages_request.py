"""The question: a scenario on nodes of several kinds, and how its GPUs may be filled."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from sizing.scenario import Scenario
from sizing.training.memory.memory_question import HEADROOM_FRACTION
from sizing.units import Fraction

REFERENCE_STAGES: dict[str, Any] = {
    "scenario": {
        "model": {"preset": "llama-3.1-70b"},
        "training": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 256},
        "parallelism": {"tensor": 8, "pipeline": 8, "data": 2},
        "cluster": {
            "nodes": [
                {"count": 8, "node": "dgx-a100", "storage_nics": "1 x 100 Gb/s"},
                {"count": 8, "node": "dgx-h100", "storage_nics": "2 x 400 Gb/s"},
            ]
        },
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "100 GB/s"}},
    }
}
"""70B on what an older cluster and a newer one have together."""

MAX_CLOCK_DISTANCE = 1000
"""Of virtual workers: 4 and 32 are the values of HetPipe's paper."""


class StagesRequest(BaseModel):
    """A scenario whose pipeline stands on nodes of several kinds."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_STAGES]})

    scenario: Scenario = Field(
        description="Model, batch and degrees, and cluster.nodes with the count of each kind. Its split of the layers "
        "is what the balanced one is compared with, in the order of cluster.nodes."
    )
    headroom_fraction: Annotated[Fraction, Field(ge=0, le=0.9)] = Field(
        HEADROOM_FRACTION, description="Fraction of a GPU's memory kept free for what is not counted."
    )
    clock_distance: Annotated[int, Field(ge=0, le=MAX_CLOCK_DISTANCE)] = Field(
        0,
        description="Waves by which a virtual worker may be ahead of the slowest, D in HetPipe's paper. "
        "Default: 0, all wait for each other after each wave.",
    )
