"""GPU types: peak rates with a source per entry, read from `gpus.toml` beside this file."""

from __future__ import annotations

import functools
from typing import Annotated

from pydantic import Field

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.units import BytesPerSecond

Flops = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Gpu(CatalogEntry):
    """A published GPU, and where its figures were read."""

    bf16_flops_per_second: Flops = Field(
        description="Floating-point operations per second of dense matrix products in 16 bits."
    )
    fp8_flops_per_second: Flops | None = Field(
        None,
        description="Floating-point operations per second of dense matrix products in 8 bits. "
        "Null where the GPU has no such units.",
    )
    has_block_scales: bool = Field(
        False, description="Whether matrix products may have a scale for each block of values, as MXFP8 and NVFP4."
    )
    memory_bytes_per_second: BytesPerSecond = Field(description="Bandwidth of the GPU's memory, in bytes per second.")
    link_bytes_per_second: BytesPerSecond = Field(
        description="Bandwidth to the other GPUs that its links join, one way, in bytes per second."
    )


@functools.cache
def gpu_catalog() -> dict[str, Gpu]:
    """Every GPU type of the catalog by name."""
    return entries(Gpu, package=__package__, file="gpus.toml")


def gpu_named(name: str) -> Gpu:
    """The catalog's GPU of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    return entry_named(name, gpu_catalog(), field="cluster.node_spec.gpu")
