"""Weights in 8 or 4 bits with a scale for each block of values: the bytes of a tensor from its shape."""

from __future__ import annotations

import math
from typing import Literal

from sizing.model.inventory import TensorRole

ScaledDtype = Literal["fp8-block", "mxfp8", "mxfp4", "nvfp4"]
"""Dtypes with scales. `fp8-block`: an fp32 scale for each tile of 128 x 128, as DeepSeek-V3 is published. `mxfp8`,
`mxfp4`: one byte of scale for 32 values of a row. `nvfp4`: one byte of scale for 16 values of a row, and an fp32 scale
for the tensor."""

_TILE = 128
_TILE_SCALE_BYTES = 4
"""Bytes of a tile's scale. Source: DeepSeek-V3, README_WEIGHTS.md, weight_scale_inv of 128 x 128 blocks."""
_MX_BLOCK = 32
"""Values that share a scale of one byte. Source: OCP Microscaling Formats (MX) Specification 1.0, section 5."""
_NVFP4_BLOCK = 16
_NVFP4_TENSOR_BYTES = 4
"""Bytes of the scale of a whole tensor. Source: NVIDIA Transformer Engine, common/recipe, NVFP4BlockScaling: an E4M3
scale for 16 values, and an fp32 scale for all.
"""
_UNSCALED_BYTES = 2
"""Bytes of a value of embeddings, head, norms and biases, which stay bf16: DeepSeek-V3 and gpt-oss as published."""


def scaled_bytes(dtype: ScaledDtype, shape: tuple[int, ...], *, role: TensorRole) -> int:
    """Count the bytes of one tensor of weights with its scales; 2 per value where it is not a matrix of a layer.

    For m rows of n values. fp8-block: m n + 4 ceil(m/128) ceil(n/128). mxfp8: m (n + ceil(n/32)). mxfp4: m (ceil(n/2) +
    ceil(n/32)). nvfp4: m (ceil(n/2) + ceil(n/16)) + 4. Source: as ScaledDtype.

    >>> [scaled_bytes(dtype, (256, 512), role="hidden-matrix") for dtype in ("fp8-block", "mxfp8", "mxfp4", "nvfp4")]
    [131104, 135168, 69632, 73732]
    >>> scaled_bytes("mxfp4", (64,), role="other")
    128
    """
    if role != "hidden-matrix":
        return _UNSCALED_BYTES * math.prod(shape)
    rows, columns = shape[-2:]
    match dtype:
        case "fp8-block":
            matrix = rows * columns + _TILE_SCALE_BYTES * _num_blocks(rows, _TILE) * _num_blocks(columns, _TILE)
        case "mxfp8":
            matrix = rows * (columns + _num_blocks(columns, _MX_BLOCK))
        case "mxfp4":
            matrix = rows * (_num_blocks(columns, 2) + _num_blocks(columns, _MX_BLOCK))
        case "nvfp4":
            matrix = rows * (_num_blocks(columns, 2) + _num_blocks(columns, _NVFP4_BLOCK)) + _NVFP4_TENSOR_BYTES
    return math.prod(shape[:-2]) * matrix


def _num_blocks(values: int, size: int) -> int:
    return -(-values // size)
