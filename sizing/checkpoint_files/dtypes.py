"""Dtypes and names of stored tensors: bits of an element, spellings of dtypes, and names that are not parameters."""

from __future__ import annotations

import math

from sizing.spelling import known_spelling

_BELOW_A_BYTE = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8))

TORCH_DTYPE_BITS: dict[str, int] = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float4_e2m1fn_x2": 8,
    "complex128": 128,
    "complex64": 64,
    "complex32": 32,
    "int64": 64,
    "int32": 32,
    "int16": 16,
    "int8": 8,
    "uint64": 64,
    "uint32": 32,
    "uint16": 16,
    "uint8": 8,
    "bool": 8,
    "qint32": 32,
    "qint8": 8,
    "quint8": 8,
    "quint4x2": 8,
    "quint2x4": 8,
    "bits16": 16,
    "bits8": 8,
    "bits4x2": 8,
    "bits2x4": 8,
    "bits1x8": 8,
    **dict.fromkeys(sorted(_BELOW_A_BYTE), 8),
}
"""Bits of an element by torch's name. Source: `torch.dtype.itemsize` of torch 2.13. `_x2` and the like hold several
values in one element.
"""

STORAGE_DTYPES: dict[str, str] = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "QInt8Storage": "qint8",
    "QInt32Storage": "qint32",
    "QUInt8Storage": "quint8",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
}
"""Classes that a torch.save file names for its storages. Source: `torch.storage` of torch 2.13."""

SAFETENSORS_DTYPES: dict[str, tuple[str, int]] = {
    "F64": ("float64", 64),
    "F32": ("float32", 32),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F6_E2M3": ("float6_e2m3", 6),
    "F6_E3M2": ("float6_e3m2", 6),
    "F4": ("float4_e2m1", 4),
    "C64": ("complex64", 64),
    "I64": ("int64", 64),
    "I32": ("int32", 32),
    "I16": ("int16", 16),
    "I8": ("int8", 8),
    "U64": ("uint64", 64),
    "U32": ("uint32", 32),
    "U16": ("uint16", 16),
    "U8": ("uint8", 8),
    "BOOL": ("bool", 8),
}
"""Names in a safetensors header: torch's name and bits per element. Source: safetensors 0.8, `enum Dtype`."""

NOT_STATED = "not stated"
"""Name for the dtype of a tensor whose checkpoint does not state it readably."""

FLOATING = frozenset(
    {"float64", "float32", "float16", "bfloat16", "float6_e2m3", "float6_e3m2", "float4_e2m1"}
    | {name for name in TORCH_DTYPE_BITS if name.startswith("float8")}
)
"""Dtypes in which one element is one parameter."""

QUANTISED = (
    frozenset({"int32", "int16", "int8", "uint32", "uint8", "float4_e2m1fn_x2"})
    | {name for name in TORCH_DTYPE_BITS if name.startswith(("q", "bits"))}
    | _BELOW_A_BYTE
)
"""Dtypes in which weights are packed: one element may hold several parameters."""

_SHORT_NAMES = {
    "fp64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "float8": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn",
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}
"""Short names of dtypes, each with torch's name. fp8 without its format means that of weights. Source: torch, Tensor
Attributes.
"""
DTYPE_NAMES = (
    {name: name for name in (*TORCH_DTYPE_BITS, NOT_STATED)}
    | {name: name for name, _ in SAFETENSORS_DTYPES.values()}
    | {name.casefold(): torchs for name, (torchs, _) in SAFETENSORS_DTYPES.items()}
    | _SHORT_NAMES
)
"""Every name of a dtype in lower case (torch's, that of a safetensors header, a short one), each with torch's name."""

MAX_DIMENSIONS = 64
"""torch's own limit: `dim_bitset_size` in ATen/WrapDimUtilsMulti.h."""
MAX_ELEMENTS = 2**63 - 1
"""Max elements of a tensor: torch counts in signed 64 bits."""


def torch_dtype(name: str) -> str | None:
    """Return torch's name of a dtype from any of its names in any case; None if unknown.

    >>> torch_dtype("BF16"), torch_dtype("torch.float32"), torch_dtype("fp8"), torch_dtype("banana")
    ('bfloat16', 'float32', 'float8_e4m3fn', None)
    """
    spelled = known_spelling(name.strip().casefold().removeprefix("torch."), DTYPE_NAMES)
    return None if spelled is None else DTYPE_NAMES[spelled]


def num_elements(shape: tuple[int, ...]) -> int:
    """Count the elements of a tensor: the product of its sizes, 1 for a scalar.

    >>> num_elements((3, 4)), num_elements(())
    (12, 1)

    Raises ValueError for a shape that no tensor can have.
    """
    if len(shape) > MAX_DIMENSIONS or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError(f"a shape must hold at most {MAX_DIMENSIONS} whole numbers, none of them negative")
    count = math.prod(min(size, 2**64) for size in shape)
    if count > MAX_ELEMENTS:
        raise ValueError(f"a tensor must have at most {MAX_ELEMENTS} elements")
    return count


BUFFERS = frozenset(
    {
        "running_mean",
        "running_var",
        "num_batches_tracked",
        "inv_freq",
        "position_ids",
        "masked_bias",
        "_extra_state",
        "weight_scale",
        "weight_scale_inv",
        "input_scale",
        "scales",
        "qzeros",
        "g_idx",
        "SCB",
        "absmax",
        "quant_map",
    }
)
"""Names of tensors that are not parameters: buffers of modules, scales of quantised weights."""
