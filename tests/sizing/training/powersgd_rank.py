"""One of two ranks that train a small model with PyTorch's PowerSGD hook, and the bytes that the hook then keeps.

Run as a module: rank, world size, a file to meet at, rank of the approximation, whether errors are fed back.
"""

from __future__ import annotations

import hashlib
import json
import sys
from datetime import timedelta

import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

from io_bench.checks.validation.forked_ranks import leave

TIMEOUT = timedelta(seconds=300)


def model() -> nn.Module:
    """Matrices that low rank makes smaller and some that it does not, vectors, and a tensor of four dimensions."""
    torch.manual_seed(0)
    convolution = nn.Conv2d(6, 16, 5)
    return nn.Sequential(convolution, nn.Flatten(), nn.Linear(16 * 16, 96), nn.LayerNorm(96), nn.Linear(96, 3))


def state_after_some_steps(rank: int, approximation_rank: int, *, feeds_back: bool) -> powerSGD_hook.PowerSGDState:
    state = powerSGD_hook.PowerSGDState(
        None, matrix_approximation_rank=approximation_rank, start_powerSGD_iter=2, use_error_feedback=feeds_back
    )
    trained = nn.parallel.DistributedDataParallel(model())
    trained.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    torch.manual_seed(rank + 1)
    for _ in range(4):
        trained(torch.randn(2, 6, 8, 8)).square().sum().backward()
    return state


def num_bytes(tensors: dict[int, torch.Tensor]) -> int:
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors.values())


def digest(tensors: dict[int, torch.Tensor]) -> str:
    return hashlib.sha256(b"".join(tensors[key].numpy().tobytes() for key in sorted(tensors))).hexdigest()


def main() -> None:
    rank, world, path, approximation_rank, feeds_back = sys.argv[1:]
    distributed.init_process_group(
        "gloo", init_method=f"file://{path}", rank=int(rank), world_size=int(world), timeout=TIMEOUT
    )
    state = state_after_some_steps(int(rank), int(approximation_rank), feeds_back=feeds_back == "yes")
    kept = (state.error_dict, state.p_memory_dict, state.q_memory_dict)
    compressed = state.total_numel_after_compression // (state.iter - state.start_powerSGD_iter)
    found = {"bytes": [*map(num_bytes, kept)], "digests": [*map(digest, kept)], "sent": compressed}
    print(json.dumps(found), flush=True)
    leave()


if __name__ == "__main__":
    main()
