"""Weights in 8 or 4 bits with a scale for each block of values: bytes of a tensor by its shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

ScaledDtype = Literal["fp8-block", "mxfp8", "mxfp4", "nvfp4"]
"""`fp8-block`: an fp32 scale for each tile of 128 x 128, as DeepSeek-V3 is published. `mxfp8`, `mxfp4`: a byte of scale
for 32 values of a row. `nvfp4`: a byte for 16 values of a row, and an fp32 scale for the tensor."""

_TILE = 128
_TILE_SCALE_BYTES = 4
"""Source: DeepSeek-V3, README_WEIGHTS.md, weight_scale_inv of 128 x 128 blocks."""
_MX_BLOCK = 32
"""Values that share a scale of one byte. Source: OCP Microscaling Formats (MX) Specification 1.0, section 5."""
_NVFP4_BLOCK = 16
_NVFP4_TENSOR_BYTES = 4
"""Source: NVIDIA Transformer Engine, common/recipe, NVFP4BlockScaling: E4M3 scales of 16 values, an fp32 one of all."""
_UNSCALED_BYTES = 2
"""Of a value of embeddings, head, norms and biases, which stay bf16: DeepSeek-V3 and gpt-oss as published."""


def scaled_bytes(dtype: ScaledDtype, shape: tuple[int, ...], *, is_hidden_matrix: bool) -> int:
    """Bytes of one tensor of weights with the scales of its blocks; 2 per value of what is no matrix of a layer.

    fp8-block: m n + 4 ceil(m/128) ceil(n/128); mxfp8: m (n + ceil(n/32)); mxfp4: m (ceil(n/2) + ceil(n/32)); nvfp4:
    m (ceil(n/2) + ceil(n/16)) + 4, of m rows of n values.
    Source: as ScaledDtype.

    >>> [scaled_bytes(dtype, (256, 512), is_hidden_matrix=True) for dtype in ("fp8-block", "mxfp8", "mxfp4", "nvfp4")]
    [131104, 135168, 69632, 73732]
    >>> scaled_bytes("mxfp4", (64,), is_hidden_matrix=False)
    128
    """
    if not is_hidden_matrix:
        return _UNSCALED_BYTES * math.prod(shape)
    rows, columns = shape[-2:]
    return math.prod(shape[:-2]) * _MATRIX_BYTES[dtype](rows, columns)


def _fp8_block(rows: int, columns: int) -> int:
    return rows * columns + _TILE_SCALE_BYTES * _blocks(rows, _TILE) * _blocks(columns, _TILE)


def _mxfp8(rows: int, columns: int) -> int:
    return rows * (columns + _blocks(columns, _MX_BLOCK))


def _mxfp4(rows: int, columns: int) -> int:
    return rows * (_blocks(columns, 2) + _blocks(columns, _MX_BLOCK))


def _nvfp4(rows: int, columns: int) -> int:
    return rows * (_blocks(columns, 2) + _blocks(columns, _NVFP4_BLOCK)) + _NVFP4_TENSOR_BYTES


def _blocks(values: int, size: int) -> int:
    return -(-values // size)


_MATRIX_BYTES: dict[ScaledDtype, Callable[[int, int], int]] = {
    "fp8-block": _fp8_block,
    "mxfp8": _mxfp8,
    "mxfp4": _mxfp4,
    "nvfp4": _nvfp4,
}
