"""What the report says of the time of a step."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class StepTime(BaseModel):
    """How long a step of training takes, part by part, on the slowest stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: float = Field(description="Seconds from one step of the optimizer to the next.")
    tokens_per_second: float = Field(description="Tokens that all GPUs together train on per second.")
    tokens_per_second_per_gpu: float = Field(
        description="Tokens per second of a whole run over its GPUs: what one of them trains on."
    )
    mfu_fraction: float = Field(
        description="Fraction of the GPUs' peak in bf16 that the model's operations take, known as MFU. They are 6 per "
        "active parameter and token and attention in full, without what is computed again."
    )
    compute_seconds: float = Field(description="Seconds in which the slowest stage computes, microbatch by microbatch.")
    waiting_seconds: float = Field(
        description="Seconds in which it waits for tensor, context, expert and pipeline ranks."
    )
    bubble_seconds: float = Field(description="Seconds for which it idles while the pipeline fills and drains.")
    exchange_seconds: float = Field(
        description="Seconds of exchanging gradients and weights with data-parallel ranks, without what computation "
        "hides."
    )
    optimizer_seconds: float = Field(
        description="Seconds in which the optimizer updates weights and moments on the GPU, after the last gradients."
    )
    offload_seconds: float = Field(
        0.0,
        description="Seconds for which the step waits for what training.offload moves over the GPU's link and updates "
        "on the host, without what computation hides. 0 without offload.",
    )
