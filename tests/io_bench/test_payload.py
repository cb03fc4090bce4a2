from __future__ import annotations

import io
import math
import zlib
from collections import Counter

import pytest
import torch

from io_bench.payload.byte_source import POOL_BYTES
from io_bench.payload.inventory import BYTES_PER_DTYPE, Inventory, TensorSpec, inventory_of
from io_bench.payload.payload import ResidentPayload, checksum, tensors_of

INVENTORY = inventory_of(2 * POOL_BYTES)


def filled(*, seed: int = 1, rank: int = 0, repetition: int = 0) -> ResidentPayload:
    payload = ResidentPayload(INVENTORY, seed=seed, rank=rank, device="cpu")
    payload.refill(repetition)
    return payload


def raw_bytes(payload: ResidentPayload) -> bytes:
    return b"".join(tensor.view(-1).view(torch.uint8).numpy().tobytes() for _, tensor in tensors_of(payload.state))


def test_nothing_compresses_the_payload() -> None:
    data = raw_bytes(filled())
    assert len(zlib.compress(data)) / len(data) > 0.999


def test_no_block_stands_twice_in_what_ranks_and_repetitions_write() -> None:
    payloads = [filled(), filled(rank=1), filled(repetition=1)]
    blocks = [
        data[start : start + 4096] for data in map(raw_bytes, payloads) for start in range(0, len(data) - 4095, 4096)
    ]
    assert len(set(blocks)) == len(blocks)


def test_tensors_of_any_size_are_filled_to_the_last_byte() -> None:
    sizes = (0, 1, 7, 8, 9, POOL_BYTES - 1, POOL_BYTES + 3)
    odd = Inventory((*(TensorSpec("a", str(n), (n,), "uint8") for n in sizes), TensorSpec("a", "s", (), "float32")))
    payload = ResidentPayload(odd, seed=1, rank=0, device="cpu")
    seen = {name: set[int]() for name, _ in tensors_of(payload.state)}
    for repetition in range(8):
        payload.refill(repetition)
        for name, tensor in tensors_of(payload.state):
            seen[name].add(int(tensor.view(-1).view(torch.uint8)[-1]) if tensor.numel() else -1)
    assert [len(last_bytes) > 1 for last_bytes in seen.values()] == [False] + [True] * len(sizes)


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert checksum(filled().state) == checksum(filled().state)


@pytest.mark.parametrize("other", [{"seed": 2}, {"rank": 1}, {"repetition": 1}])
def test_another_seed_rank_or_repetition_gives_other_bytes(other: dict[str, int]) -> None:
    assert checksum(filled(**other).state) != checksum(filled().state)


def test_the_checksum_sees_a_single_bit_a_name_and_a_shape() -> None:
    state = filled().state
    before = checksum(state)
    name, tensor = next(tensors_of(state["model"]))
    tensor.view(-1).view(torch.uint8)[-1] ^= 1
    assert checksum(state) != before
    tensor.view(-1).view(torch.uint8)[-1] ^= 1
    assert checksum(state) == before
    state["model"][name] = tensor.view(-1)
    assert checksum(state) != before
    state["model"][name] = tensor
    state["model"]["other"] = state["model"].pop(name)
    assert checksum(state) != before


def test_every_tensor_has_a_storage_of_its_own_so_that_a_checkpoint_holds_each_byte() -> None:
    file = io.BytesIO()
    torch.save(filled().state, file)
    assert INVENTORY.num_bytes < file.tell() < INVENTORY.num_bytes * 1.02


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
