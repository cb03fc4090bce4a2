"""What a Scenario's `checkpoint` block says of the files."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout.formats import FormatName, Mode
from sizing.layout.optimizer_sharding import OptimizerSharding
from sizing.spelling import AnySpelling
from sizing.units import ByteCount


class CheckpointFiles(BaseModel):
    """Which files are written, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: FormatName | None = Field(
        None,
        description="Layout of the files; `ckpt-size formats` lists them. Default: the one that the framework writes.",
    )
    mode: AnySpelling[Mode] = Field(
        "sync",
        description="How training waits for a save. "
        "With sync for all of it, with async for the copy to host memory and what the format does before it. "
        "Default with framework maxtext: async.",
    )
    files_per_rank: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None,
        description="Files that each rank writes in torch-dist. "
        "Default: 1, as Megatron-Core from 0.17 on; 0.6 to 0.16 wrote 2.",
    )
    optimizer_sharding: AnySpelling[OptimizerSharding] | None = Field(
        None,
        description="How torch-dist saves a distributed optimizer. With dp-reshardable as the shares of the ranks, "
        "which only other data and context degrees can read; with fully-reshardable gathered, tensor by tensor, which "
        "any layout can read. Default: dp-reshardable, as Megatron-LM ships.",
    )
    observed_bytes: ByteCount | None = Field(
        None,
        description="Measured bytes of one checkpoint. Times and rates use them in place of the computed size. "
        "Default: the computed size.",
    )
