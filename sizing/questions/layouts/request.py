"""Request for a layout search: a scenario without its degrees, and what makes a layout good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from sizing.errors import broken_rule
from sizing.former_names import with_new_names
from sizing.layout.degrees import KeptDegree
from sizing.layout.parallelism import Degree, TensorDegree
from sizing.questions.headroom import HeadroomFraction
from sizing.scenario import Scenario
from sizing.strict_model import InputModel
from sizing.training.memory_search import HEADROOM_FRACTION

Objective = Literal["model-parallel-gpus", "step-time", "goodput", "save-time", "write-bandwidth", "bubble", "memory"]

MicroBatch = Annotated[int, Field(ge=1, le=1_000_000)]

OBJECTIVES_OF_TIME: tuple[Objective, ...] = ("step-time", "goodput")
"""Objectives that search microbatches and virtual stages too: these change the time and nothing for the storage."""
SEARCHED_MICRO_BATCHES = (1, 2, 4)
SEARCHED_VIRTUAL_STAGES = (1, 2, 4, 8)
"""Values of published runs: at most 4 sequences, and 8 chunks (Llama 3, arXiv 2407.21783, section 3.3.2)."""

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


class LayoutsRequest(InputModel):
    """A scenario whose degrees are searched, and what makes a layout good."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_SEARCH]})

    scenario: Scenario = Field(
        description="Model, batch and nodes; cluster.num_gpus is the world size. "
        "Of parallelism all but tensor, pipeline, data and expert is kept."
    )
    objective: Objective | None = Field(
        None,
        description="What makes a layout good; the lowest is best, of goodput the highest. step-time is the time of a "
        "step; goodput the tokens per second that saves and failures leave. "
        "Default: goodput where batch, GPU, storage and failures are known, step-time where batch and GPU are, else "
        "model-parallel-gpus.",
    )
    headroom_fraction: HeadroomFraction = Field(
        HEADROOM_FRACTION,
        description="Fraction of a GPU's memory kept free for what is not counted: fragments, buffers, gathered "
        "layers.",
    )
    contexts: Annotated[tuple[Degree, ...], Field(min_length=1, max_length=16)] | None = Field(
        None, description="Context degrees to try. Default: the scenario's alone."
    )
    micro_batches: Annotated[tuple[MicroBatch, ...], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Sizes of a microbatch to try. Default: 1, 2, 4 and the scenario's with the objectives step-time "
        "and goodput, else the scenario's alone.",
    )
    virtual_pipelines: Annotated[tuple[Degree, ...], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Virtual stages to try, of layers in equal chunks. Default: 1, 2, 4, 8 and the scenario's with the "
        "objectives step-time and goodput, else the scenario's alone.",
    )
    expert_tensors: Annotated[tuple[TensorDegree, ...], Field(max_length=16)] | None = Field(
        None,
        description="Expert-tensor degrees to try, those that divide the tensor degree. Default: 1 and the tensor "
        "degree with the objectives step-time and goodput, else the scenario's. An empty list tries the scenario's "
        "alone.",
    )
    partial_recomputation: bool | None = Field(
        None,
        description="Whether layouts that need full recomputation get the min of recomputed_layers that fits. "
        "Default: yes with the objectives step-time and goodput with the frameworks megatron and fsdp2.",
    )
    offload: bool | None = Field(
        None,
        description="Whether optimizer, weights and activations may lie in host memory where a layout does not fit, or "
        "less would be faster. Default: yes, unless training.offload of the scenario moves something: then it stays.",
    )
    kept_degrees: Annotated[tuple[KeptDegree, ...], Field(max_length=5)] = Field(
        (),
        description="Degrees of the scenario that stay as they are; a shard_group that it leaves open as frameworks "
        "ship it, over all data ranks. Default: none; all are searched.",
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

    @model_validator(mode="before")
    @classmethod
    def _searches_the_microbatch_that_is_left_open(cls, document: object) -> object:
        """Begin with the smallest microbatch where a batch is given without one."""
        if not isinstance(document, Mapping) or not isinstance(scenario := document.get("scenario"), Mapping):
            return document
        training = scenario.get("training")
        if not isinstance(training, Mapping) or training.get("micro_batch_size") is not None:
            return document
        if training.get("global_batch_size") is None or training.get("sequence_length") is None:
            return document
        sizes = [each for each in document.get("micro_batches") or () if isinstance(each, int)]
        of_training = {**training, "micro_batch_size": min(sizes, default=SEARCHED_MICRO_BATCHES[0])}
        return {**document, "scenario": {**scenario, "training": of_training}}

    @field_validator("offload")
    @classmethod
    def _does_not_contradict_the_scenario(cls, offload: bool | None, known: ValidationInfo) -> bool | None:
        scenario = known.data.get("scenario")
        if offload is False and scenario is not None and scenario.training.moves_off_gpu:
            raise broken_rule(
                "contradicts scenario.training.offload, which moves something off the GPU", "leave out one of them"
            )
        return offload
