"""Weights in 8 or 4 bits with a scale for each block of values: the bytes of a tensor from its shape."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from sizing.model.inventory import TensorRole

ScaledDtype = Literal["fp8-block", "mxfp8", "mxfp4", "nvfp4"]
"""Dtypes with scales. `fp8-block`: an fp32 scale for each tile of 128 x 128, as DeepSeek-V3 is published. `mxfp8`,
`mxfp4`: one byte of scale for 32 values of a row. `nvfp4`: one byte of scale for 16 values of a row, and an fp32 scale
for the tensor."""

QuantizedDtype = Literal["nf4", "nf4-double", "fp4", "fp4-double", "int8"]
"""Dtypes in which bitsandbytes keeps frozen weights. `nf4`, `fp4`: 4 bits and an fp32 scale for 64 values. `-double`:
scales of 8 bits, with an fp32 scale for 256 of them. `int8`: 8 bits and an fp32 scale for each row."""

QUANTIZED_BYTES: Mapping[str, float] = {"nf4": 0.5, "nf4-double": 0.5, "fp4": 0.5, "fp4-double": 0.5, "int8": 1.0}
"""Bytes of a value of a matrix in each of them, without scales."""

_QUANTIZED_BLOCK = 64
"""Values that share a scale in 4 bits. Source: bitsandbytes 0.50, nn/modules.py, Params4bit, blocksize."""
_SCALES_PER_SCALE = 256
"""Scales that share a scale with double quantisation. Source: bitsandbytes 0.50, functional.py, quantize_4bit; Dettmers
et al. 2023, arXiv 2305.14314, section 3."""
_SCALE_BYTES = 4
"""Bytes of a scale that is not quantised: fp32. Source: as above."""

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


def scaled_bytes(dtype: ScaledDtype | QuantizedDtype, shape: tuple[int, ...], *, role: TensorRole) -> int:
    """Count the bytes of one tensor of weights with its scales; 2 per value where it is not a matrix of a layer.

    For m rows of n values. fp8-block: m n + 4 ceil(m/128) ceil(n/128). mxfp8: m (n + ceil(n/32)). mxfp4: m (ceil(n/2) +
    ceil(n/32)). nvfp4: m (ceil(n/2) + ceil(n/16)) + 4. nf4, fp4: ceil(m n/2) + 4 b in b = ceil(m n/64) blocks; double:
    ceil(m n/2) + b + 4 ceil(b/256). int8: m (n + 4). Source: as ScaledDtype and QuantizedDtype; tables of levels, of
    1.3 kB a tensor at most, are not counted.

    >>> [scaled_bytes(dtype, (256, 512), role="hidden-matrix") for dtype in ("fp8-block", "mxfp8", "mxfp4", "nvfp4")]
    [131104, 135168, 69632, 73732]
    >>> [scaled_bytes(dtype, (256, 512), role="hidden-matrix") for dtype in ("nf4", "nf4-double", "int8")]
    [73728, 67616, 132096]
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
        case "nf4" | "fp4":
            matrix = _num_blocks(rows * columns, 2) + _SCALE_BYTES * _num_blocks(rows * columns, _QUANTIZED_BLOCK)
        case "nf4-double" | "fp4-double":
            num_scales = _num_blocks(rows * columns, _QUANTIZED_BLOCK)
            scales = num_scales + _SCALE_BYTES * _num_blocks(num_scales, _SCALES_PER_SCALE)
            matrix = _num_blocks(rows * columns, 2) + scales
        case "int8":
            matrix = rows * (columns + _SCALE_BYTES)
    return math.prod(shape[:-2]) * matrix


def _num_blocks(values: int, size: int) -> int:
    return -(-values // size)
