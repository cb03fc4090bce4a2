"""The `checkpoint.export` block of a Scenario: files that other programs, or other layouts, load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.spelling import AnySpelling, known_spelling
from sizing.state.optimizers import Dtype
from sizing.state.scaled_dtypes import ScaledDtype
from sizing.units import ByteCount

ExportWriter = Literal["rank-0", "every-rank", "afterwards"]
ExportFormat = Literal["safetensors", "deepspeed-universal"]
UNIVERSAL: ExportFormat = "deepspeed-universal"

_SHARD_BYTES = 50_000_000_000
"""Source: as it says itself."""
_SHARD_SOURCE = "max_shard_size of transformers 5.23, save_pretrained"


class Export(BaseModel):
    """Files of whole tensors beside the checkpoint: weights in safetensors, or a universal checkpoint of DeepSpeed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        description="Of so many saves to the main storage one is exported too."
    )
    format: AnySpelling[ExportFormat] = Field(
        "safetensors",
        description="What is written. With safetensors consolidated weights in Hugging Face format; with "
        "deepspeed-universal what ds_to_universal makes of a DeepSpeed checkpoint, afterwards: weights, fp32 copy and "
        "moments of each parameter in a folder of its own, which any layout loads.",
    )
    dtype: Dtype | ScaledDtype = Field(
        "bf16", description="Dtype of the exported weights. fp8-block and the MX formats count their scales."
    )
    written_by: AnySpelling[ExportWriter] = Field(
        "rank-0",
        description="Who writes. With rank-0 one rank gathers and writes all weights while training waits; with "
        "every-rank all ranks write their shards, then read and write whole tensors, while training waits; with "
        "afterwards another job reads the checkpoint's weights and writes them.",
    )
    shard_bytes: ByteCount = Field(
        _SHARD_BYTES,
        json_schema_extra={"source": _SHARD_SOURCE},
        description=f"Max bytes of one file. Default: 50 GB, {_SHARD_SOURCE}.",
    )
    keep: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1, description="Exports that are kept, the newest ones; one more is being written."
    )

    @model_validator(mode="before")
    @classmethod
    def _another_job_converts(cls, given: object) -> object:
        if not isinstance(given, Mapping) or not known_spelling(str(given.get("format")), (UNIVERSAL,)):
            return given
        return {"written_by": "afterwards"} | dict(given)

    @model_validator(mode="after")
    def _a_universal_checkpoint_is_as_deepspeed_writes_it(self) -> Self:
        if self.format != UNIVERSAL:
            return self
        for name in ("dtype", "shard_bytes"):
            if name in self.model_fields_set:
                raise broken_rule(f"has format {UNIVERSAL} and {name}, which is of safetensors", f"remove {name}")
        if self.written_by != "afterwards":
            raise broken_rule(
                f"has format {UNIVERSAL} and written_by {self.written_by}: another job makes it", "remove written_by"
            )
        return self
