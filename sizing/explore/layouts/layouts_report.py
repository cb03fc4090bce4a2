"""The answer of a layout search, as a document."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sizing.explore.layouts.layouts_request import Objective
from sizing.layout import Parallelism
from sizing.state.training import Recomputation


class FoundLayout(BaseModel):
    """Degrees whose state and activations fit, with the figures of `answer` for them. What is None is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parallelism: Parallelism
    recomputation: Recomputation | None = Field(description="None where activations are not counted")
    model_parallel_gpus: int = Field(description="over which the tensors are cut; with FSDP, those of a shard group")
    gpu_bytes: int = Field(description="needed on the fullest GPU: state and, with a batch, activations")
    gpu_state_bytes: int
    activation_bytes: int | None
    bubble_fraction: float | None
    num_writers: int
    num_writing_nodes: int
    total_bytes: int = Field(description="of one checkpoint")
    max_rank_bytes: int
    write_seconds: float | None
    stall_seconds: float | None
    restore_seconds: float | None
    required_write_bytes_per_second: float | None = Field(description="the least that meets the targets")


class LeastMemory(BaseModel):
    """The degrees that need least of a GPU."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    parallelism: Parallelism
    recomputation: Recomputation | None
    gpu_bytes: int


class LayoutsReport(BaseModel):
    """The layouts that fit, the best by the objective first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    objective: Objective
    num_gpus: int
    num_nodes: int
    node: str
    gpu_memory_bytes: int
    room_bytes: int = Field(description="of a GPU's memory, less the headroom")
    num_candidates: int = Field(description="degrees that multiply to the GPUs")
    num_refused: int = Field(description="of them by the model, the format or the batch")
    num_too_large: int = Field(description="of the others, for a GPU")
    num_fitting: int
    layouts: list[FoundLayout]
    least_memory: LeastMemory | None = Field(description="of all that are not refused; None where there are none")
    warnings: list[str]
