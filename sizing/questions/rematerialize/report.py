"""Report on rematerialization, as a document: the plan of each technique for each stage."""

from __future__ import annotations

from pydantic import Field

from sizing.strict_model import StrictModel


class RematerializationPlan(StrictModel):
    """What one technique makes of a stage."""

    technique: str = Field(description="Name of the technique: which layers are computed again, and how often.")
    recomputed_layers: list[int] = Field(
        description="Layers that go forward more than once, by their numbers in the model from 0."
    )
    max_forward_passes: int = Field(description="Forward passes of the layer that has the most.")
    gpu_bytes: int = Field(description="Bytes that the fullest GPU of the stage then needs.")
    fits: bool = Field(description="Whether gpu_bytes is at most room_bytes.")
    extra_compute_fraction: float = Field(
        description="Compute time that is added, as a fraction of that of all passes without recomputation."
    )


class StageRematerialization(StrictModel):
    """Pipeline stages that are alike, and what each technique makes of them."""

    first_stage: int = Field(description="Number of the first of these pipeline stages, from 0.")
    num_stages: int = Field(description="Pipeline stages that are alike.")
    num_layers: int = Field(
        description="Layers that one of these stages runs, multi-token-prediction modules among them."
    )
    in_flight_microbatches: float = Field(description="Microbatches whose activations the stage holds at once.")
    other_bytes: int = Field(
        description="Max bytes on the GPU beside the layers' activations: state, embedding, head, and the logits or "
        "what a layer's backward pass needs. The last two are not held at one time."
    )
    plans: list[RematerializationPlan] = Field(description="A plan of each technique.")

    @property
    def fewest(self) -> RematerializationPlan:
        """Plan with the fewest layers, which frameworks can run as it is."""
        return next(plan for plan in self.plans if plan.technique == "fewest layers")


class RematerializationReport(StrictModel):
    """Which layers to compute again on each stage, and what that costs."""

    gpu_memory_bytes: int = Field(
        description="Bytes of memory that each plan is held against, as given or as the node has them."
    )
    room_bytes: int = Field(description="Bytes of it that may be used, the headroom left free.")
    num_recomputed_layers: int | None = Field(
        description="Layers per stage to compute again so that every stage fits, Megatron's --recompute-num-layers. "
        "Null where not even all of them are enough."
    )
    extra_compute_fraction: float | None = Field(
        description="Compute time that this adds on the stage where it adds most, as a fraction. "
        "Null where nothing fits."
    )
    min_gpu_bytes: int = Field(description="Bytes that the fullest GPU needs by the technique that needs least.")
    stages: list[StageRematerialization] = Field(description="Stages of the pipeline, those that are alike together.")
    warnings: list[str] = Field(description="What a reader must know before believing the figures.")
