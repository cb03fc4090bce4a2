"""The question of a layout search: a scenario without its degrees, and what makes a layout good."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sizing.errors import explain
from sizing.former_names import with_new_names
from sizing.layout.degrees import SearchedDegree
from sizing.layout.parallelism import Degree
from sizing.scenario import Scenario
from sizing.training.memory_question import HEADROOM_FRACTION
from sizing.units import Fraction

MAX_HEADROOM_FRACTION = 0.9
"""With less than a tenth of the GPU left, no layout would be found and the reason would not be seen."""

Objective = Literal["model-parallel-gpus", "save-time", "write-bandwidth", "bubble", "memory"]

REFERENCE_SEARCH: dict[str, Any] = {
    "scenario": {
        "model": {"preset": "llama-3.1-405b"},
        "training": {
            "distributed_optimizer": True,
            "sequence_length": 8192,
            "micro_batch_size": 1,
            "global_batch_size": 2048,
        },
        "checkpoint": {"format": "torch-dist"},
        "cluster": {"node": "dgx-h100", "num_gpus": 16384},
        "storage": {"profile": {"write_bytes_per_second": "1 TB/s", "node_write_bytes_per_second": "8 GB/s"}},
    },
    "objective": "bubble",
    "max_layouts": 5,
}
"""Llama 3.1 405B on the GPUs and with the batch of its first phase at 8,192 tokens, arXiv 2407.21783, table 4."""


class LayoutsRequest(BaseModel):
    """A scenario whose degrees are searched, and what makes a layout good."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_SEARCH]})

    scenario: Scenario = Field(
        description="Model, batch and nodes; cluster.num_gpus is the world size. "
        "Of parallelism all but tensor, pipeline, data and expert is kept."
    )
    objective: Objective = Field(
        "model-parallel-gpus",
        description="What makes a layout good; the lowest is best. "
        "Default: model-parallel GPUs, which leaves the max of replicas.",
    )
    headroom_fraction: Annotated[Fraction, Field(ge=0, le=MAX_HEADROOM_FRACTION)] = Field(
        HEADROOM_FRACTION,
        description="Fraction of a GPU's memory kept free for what is not counted: fragments, buffers, gathered "
        "layers.",
    )
    contexts: Annotated[tuple[Degree, ...], Field(max_length=16)] | None = Field(
        None, description="Context degrees to try. Default: the scenario's alone."
    )
    kept_degrees: Annotated[tuple[SearchedDegree, ...], Field(max_length=4)] = Field(
        (), description="Degrees of the scenario that stay as they are. Default: none; all are searched."
    )
    even_stages: bool = Field(False, description="Whether only pipeline degrees that divide the layers are tried.")
    max_layouts: Annotated[int, Field(ge=1, le=1000)] = Field(
        20,
        description="Max layouts in the report, the best first.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_former_names(cls, document: object) -> object:
        return with_new_names(document, {"most_layouts": "max_layouts"})


def layouts_request_from(document: object) -> LayoutsRequest:
    """The LayoutsRequest of a parsed document, which may be the scenario alone.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    if isinstance(document, dict) and "scenario" not in document:
        document = {"scenario": document}
    try:
        return LayoutsRequest.model_validate(document)
    except ValidationError as error:
        raise explain(error, LayoutsRequest) from None
