from __future__ import annotations

import math
from collections import Counter

import torch

from io_bench.payload.inventory import BYTES_PER_DTYPE, Inventory, TensorSpec, inventory_of


def test_an_inventory_never_exceeds_what_was_asked_and_misses_less_than_56_bytes() -> None:
    for asked in (1 << 20, 256 << 20, 10**9 + 1):
        assert 0 <= asked - inventory_of(asked).num_bytes < 56


def test_14_bytes_are_saved_for_a_parameter() -> None:
    num_bytes: Counter[str] = Counter()
    inventory = inventory_of(1 << 20)
    for tensor in inventory.tensors:
        num_bytes[tensor.part] += tensor.num_bytes
    num_parameters = sum(math.prod(tensor.shape) for tensor in inventory.tensors if tensor.part == "model")
    assert num_bytes == {part: size * num_parameters for part, size in zip(num_bytes, (2, 4, 4, 4), strict=True)}


def test_bytes_are_those_of_any_tensors() -> None:
    inventory = Inventory((TensorSpec("a", "w", (3, 5), "float16"), TensorSpec("b", "s", (), "float32")))
    assert (inventory.num_bytes, inventory.num_tensors, inventory.largest_tensor_bytes) == (34, 2, 30)
    assert Inventory(()).largest_tensor_bytes == 0


def test_torch_knows_every_dtype_and_its_size() -> None:
    for name, num_bytes in BYTES_PER_DTYPE.items():
        assert getattr(torch, name).itemsize == num_bytes
