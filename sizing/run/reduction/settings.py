"""The `checkpoint.reduction` block of a Scenario: what of the state a save leaves out, or packs."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.ranges import PlausibleChoice, plausible_choice
from sizing.spelling import AnySpelling
from sizing.units import BytesPerSecond, Fraction

PATH = "checkpoint.reduction"
Against = Literal["previous", "full"]

_Kept = Annotated[Fraction, Field(gt=0, le=1, allow_inf_nan=False)]
_Every = Annotated[int, Field(ge=2, le=10_000)]


def compression_choice(name: str) -> PlausibleChoice:
    """The plausible values of a field of `compression`.

    >>> round(compression_choice("weights_fraction").midpoint, 4)
    0.72
    """
    return plausible_choice(f"{PATH}.compression.{name}")


_PACKING = compression_choice("compress_bytes_per_second")
_UNPACKING = compression_choice("decompress_bytes_per_second")


class Compression(BaseModel):
    """Lossless compression of each rank's share before it is written.

    Measure the fractions on a checkpoint of your own: they depend on dtypes and on the stage of training.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    weights_fraction: _Kept | None = Field(
        None,
        description="Fraction of the bytes of weights that is left, as measured. "
        "Default: 0.72 of 16-bit weights, 0.82 of fp32, 1 of others.",
    )
    master_fraction: _Kept | None = Field(
        None, description="Fraction of the bytes of the fp32 master copy that is left, as measured. Default: 0.82."
    )
    moments_fraction: _Kept | None = Field(
        None,
        description="Fraction of the bytes of the optimizer's moments that is left, as measured. "
        "Default: 0.82 of fp32, 0.72 of 16-bit moments, 1 of others.",
    )
    ema_fraction: _Kept | None = Field(
        None,
        description="Fraction of the bytes of a moving average of the weights that is left, as measured. "
        "Default: 0.82 of fp32, 0.72 of 16 bits, 1 of others.",
    )
    compress_bytes_per_second: BytesPerSecond = Field(
        _PACKING.midpoint,
        json_schema_extra={"source": _PACKING.reason},
        description="Rate at which one writing rank compresses, in bytes per second of uncompressed state. "
        "Default: 1.885 GB/s, midpoint of published rates on CPUs.",
    )
    decompress_bytes_per_second: BytesPerSecond = Field(
        _UNPACKING.midpoint,
        json_schema_extra={"source": _UNPACKING.reason},
        description="Rate at which one reading rank decompresses, in bytes per second of uncompressed state. "
        "Default: 2.495 GB/s, midpoint of published rates on CPUs.",
    )


class Delta(BaseModel):
    """Saves of what has changed, between full ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    full_every: _Every = Field(description="Of so many saves one is full, and the others are deltas.")
    fraction: _Kept = Field(
        description="Fraction of the bytes of a full, uncompressed save that a delta takes as stored, as measured."
    )
    against: AnySpelling[Against] = Field(
        "previous",
        description="What a delta is made from. With previous a restore reads the full save and every delta after it, "
        "with full the full save and one delta.",
    )
    bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Rate at which one rank makes or applies a delta, in bytes per second of uncompressed state. "
        "Default: it takes no time beside the writing.",
    )


class PartialExperts(BaseModel):
    """Saves of some of the routed experts in turn; all else is in every save."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_per_save: Annotated[int, Field(ge=1, le=100_000)] = Field(
        description="Routed experts of each layer that one save holds, the next ones in the next save."
    )
    full_every: _Every | None = Field(
        None, description="Of so many saves one holds all experts. Default: none does, all are partial."
    )


class Reduction(BaseModel):
    """Less than everything: what is written to the main storage and behind it. Tiers in front keep whole states."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    compression: Compression | None = Field(None, description="Compression of what is saved. Default: none.")
    delta: Delta | None = Field(
        None, description="Deltas between full saves. Default: none. It excludes partial_experts."
    )
    partial_experts: PartialExperts | None = Field(
        None, description="Some experts in each save. Default: all of them are saved. It excludes delta."
    )

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Self:
        if self.delta is not None and self.partial_experts is not None:
            raise broken_rule("has both delta and partial_experts", "remove one of them")
        if self.compression is None and self.delta is None and self.partial_experts is None:
            raise broken_rule(
                "must have compression, delta or partial_experts", "give one of them, or remove reduction"
            )
        return self
