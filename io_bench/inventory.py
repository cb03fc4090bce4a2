"""Which tensors one rank saves: the plain description of a payload, without torch.

What sizing says of mixed precision with Adam in Megatron: bf16 weights, and in fp32 the master weights and both
moments, 14 bytes per parameter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sizing.state import Training, saved_parts
from sizing.state.optimizers import BYTES_PER_VALUE

_TORCH_DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
_TENSORS_OF_PART = {"weights": ("model",), "master": ("master",), "moments": ("exp_avg", "exp_avg_sq")}
BYTES_PER_DTYPE = {torch_name: BYTES_PER_VALUE[name] for name, torch_name in _TORCH_DTYPES.items()}  # type: ignore[index]
DTYPE_OF_PART = {
    tensor: _TORCH_DTYPES[part.dtype] for part in saved_parts(Training()) for tensor in _TENSORS_OF_PART[part.name]
}
BYTES_PER_PARAMETER = sum(BYTES_PER_DTYPE[dtype] for dtype in DTYPE_OF_PART.values())

_MOST_HIDDEN = 8192
_LEAST_LAYERS = 4
# A whole number of 8-byte words in every dtype, so that payload can be made of words.
_PARAMETER_MULTIPLE = 4


@dataclass(frozen=True, slots=True)
class Inventory:
    """The parameters of one rank, by name; each is saved once per part."""

    shapes: dict[str, tuple[int, ...]]

    @property
    def num_parameters(self) -> int:
        """Parameters of this rank."""
        return sum(map(math.prod, self.shapes.values()))

    @property
    def num_tensors(self) -> int:
        """Tensors of all parts."""
        return len(self.shapes) * len(DTYPE_OF_PART)

    @property
    def num_bytes(self) -> int:
        """Bytes of all tensors."""
        return self.num_parameters * BYTES_PER_PARAMETER

    @property
    def largest_tensor_bytes(self) -> int:
        """Bytes of the largest tensor of any part."""
        return max(map(math.prod, self.shapes.values())) * max(BYTES_PER_DTYPE.values())


def inventory_of(bytes_per_rank: int) -> Inventory:
    """Transformer layers and a slice of the embedding that fill `bytes_per_rank`, to within 56 bytes below.

    The width is the largest power of two that still gives four layers, as a rank of a pipeline would hold.

    >>> inventory = inventory_of(256 * 2**20)
    >>> inventory.num_bytes, inventory.shapes["layers.0.qkv.weight"]
    (268435440, (1536, 512))
    """
    num_parameters = bytes_per_rank // BYTES_PER_PARAMETER // _PARAMETER_MULTIPLE * _PARAMETER_MULTIPLE
    hidden = _PARAMETER_MULTIPLE
    while hidden < _MOST_HIDDEN and _LEAST_LAYERS * _layer_parameters(2 * hidden) <= num_parameters:
        hidden *= 2
    num_layers, rest = divmod(num_parameters, _layer_parameters(hidden))
    shapes = {
        f"layers.{layer}.{name}": shape for layer in range(num_layers) for name, shape in _layer_shapes(hidden).items()
    }
    return Inventory(shapes | ({"embedding.slice": (rest,)} if rest else {}))


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
