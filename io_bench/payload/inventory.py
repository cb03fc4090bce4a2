"""Which tensors one rank saves: the plain description of a payload, without torch.

A payload may be any list of tensors. Where only a size is asked for, it is what sizing says of mixed precision with
Adam in Megatron: bf16 weights, and in fp32 the master weights and both moments, 14 bytes per parameter.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import xxhash

from sizing.frameworks import saved_parts
from sizing.state import Training
from sizing.state.optimizers import BYTES_PER_VALUE, Dtype
from sizing.state.saved_state import is_plain

TORCH_DTYPES: dict[Dtype, str] = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8_e4m3fn"}
BYTES_PER_DTYPE = {torch_name: BYTES_PER_VALUE[name] for name, torch_name in TORCH_DTYPES.items()} | {"uint8": 1}
_TENSORS_OF_PART = {"weights": ("model",), "master": ("master",), "moments": ("exp_avg", "exp_avg_sq")}
_DTYPE_OF_PART = {
    tensor: TORCH_DTYPES[part.dtype]
    for part in saved_parts(Training())
    if is_plain(part.dtype)
    for tensor in _TENSORS_OF_PART[part.name]
}
BYTES_PER_PARAMETER = sum(BYTES_PER_DTYPE[dtype] for dtype in _DTYPE_OF_PART.values())

_MAX_HIDDEN = 8192
"""The width of the largest dense layers of models of 70B; wider, a rank would hold few tensors."""
_MIN_LAYERS = 4
"""Min layers, so that the payload has dozens of tensors of a model's shapes; only the smallest have fewer."""
# A whole number of 8-byte words in every dtype, so that payload can be made of words.
_PARAMETER_MULTIPLE = 4


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor of a payload: `part` and `name` are its keys in the state dict, `dtype` is torch's name."""

    part: str
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensor's values."""
        return math.prod(self.shape) * BYTES_PER_DTYPE[self.dtype]


@dataclass(frozen=True)
class Inventory:
    """The tensors that one rank saves, in the order of its state dict."""

    tensors: tuple[TensorSpec, ...]

    @property
    def num_tensors(self) -> int:
        """Tensors of all parts."""
        return len(self.tensors)

    @functools.cached_property
    def num_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.num_bytes for tensor in self.tensors)

    @functools.cached_property
    def largest_tensor_bytes(self) -> int:
        """Bytes of the largest tensor."""
        return max((tensor.num_bytes for tensor in self.tensors), default=0)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest that is equal for equal tensors in the same order."""
        return xxhash.xxh3_128_hexdigest(repr(self.tensors).encode())


def inventory_of(bytes_per_rank: int) -> Inventory:
    """Make transformer layers and a slice of the embedding that fill `bytes_per_rank`, to within 56 bytes below.

    The width is the largest power of two that still gives four layers, as a rank of a pipeline would hold.

    >>> inventory = inventory_of(256 * 2**20)
    >>> inventory.num_bytes, inventory.tensors[0]
    (268435440, TensorSpec(part='model', name='layers.0.qkv.weight', shape=(1536, 512), dtype='bfloat16'))
    """
    num_parameters = bytes_per_rank // BYTES_PER_PARAMETER // _PARAMETER_MULTIPLE * _PARAMETER_MULTIPLE
    shapes = dict(_shapes(num_parameters))
    return Inventory(
        tuple(
            TensorSpec(part, name, shape, dtype)
            for part, dtype in _DTYPE_OF_PART.items()
            for name, shape in shapes.items()
        )
    )


def equal_tensors(num_bytes: int, num_tensors: int) -> Inventory:
    """Make `num_tensors` tensors of one size, which fill `num_bytes` to within 8 bytes for each.

    >>> inventory = equal_tensors(10_000, 3)
    >>> inventory.num_tensors, inventory.tensors[0]
    (3, TensorSpec(part='tensors', name='00000', shape=(832,), dtype='float32'))
    """
    values = num_bytes // num_tensors // (_PARAMETER_MULTIPLE // 2 * BYTES_PER_DTYPE["float32"]) * 2
    return Inventory(
        tuple(TensorSpec("tensors", f"{number:05d}", (values,), "float32") for number in range(num_tensors))
    )


def _shapes(num_parameters: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    hidden = _PARAMETER_MULTIPLE
    while hidden < _MAX_HIDDEN and _MIN_LAYERS * _layer_parameters(2 * hidden) <= num_parameters:
        hidden *= 2
    num_layers, rest = divmod(num_parameters, _layer_parameters(hidden))
    for layer in range(num_layers):
        for name, shape in _layer_shapes(hidden).items():
            yield f"layers.{layer}.{name}", shape
    if rest:
        yield "embedding.slice", (rest,)


def _layer_shapes(hidden: int) -> dict[str, tuple[int, ...]]:
    return {
        "qkv.weight": (3 * hidden, hidden),
        "projection.weight": (hidden, hidden),
        "mlp_in.weight": (4 * hidden, hidden),
        "mlp_out.weight": (hidden, 4 * hidden),
        "norm_1.weight": (hidden,),
        "norm_2.weight": (hidden,),
    }


def _layer_parameters(hidden: int) -> int:
    return sum(map(math.prod, _layer_shapes(hidden).values()))
