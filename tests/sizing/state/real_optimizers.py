"""One step of real optimizers on the tensors of a small Llama, and the bytes of the state that they would save.

Run as a module it takes the name of a package and prints bytes by optimizer as JSON: some packages warn, patch torch
or keep threads. They are installed for the long tests alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch

from sizing.frameworks import saved_parts
from sizing.layout.size import group_bytes
from sizing.model import Architecture, TensorGroup
from sizing.model.inventory import inventory_of
from sizing.state import Training
from sizing.state.optimizers import Optimizer

SHAPE = Architecture(
    family="llama",
    hidden_size=256,
    num_layers=2,
    num_attention_heads=4,
    ffn_hidden_size=768,
    vocab_size=1_024,
    tied_embeddings=False,
)

Make = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]


def predicted_bytes(optimizer: Optimizer) -> int:
    """What the optimizer keeps, by this project."""
    parts = [part for part in saved_parts(Training(optimizer=optimizer, precision="fp32")) if part.name == "moments"]
    return sum(group_bytes(group, part) for group in inventory_of(SHAPE) for part in parts)


def state_bytes(make: Make, holds: Callable[[TensorGroup], bool] = lambda _: True) -> int:
    """Bytes of all tensors in the state dict after a step, shared storages once, step counters left out."""
    torch.manual_seed(0)
    parameters = [
        torch.nn.Parameter(torch.randn(group.shape) * 0.02)
        for group in inventory_of(SHAPE)
        if holds(group)
        for _ in range(group.num_tensors)
    ]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter) * 1e-3
    optimizer = make(parameters)
    optimizer.step()
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in _tensors(optimizer.state_dict()["state"])
    }
    return sum(storages.values())


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor) and not hasattr(value, "__tensor_flatten__"):
        if value.ndim:
            yield value
        return
    for each in _inner(value):
        yield from _tensors(each)


def _inner(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        wrapper: Any = value
        return [getattr(wrapper, name) for name in wrapper.__tensor_flatten__()[0]]
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def of_schedulefree() -> dict[str, int]:
    """Schedule-free AdamW and SGD."""
    schedulefree = import_module("schedulefree")

    def trained(kind: type[Any]) -> Make:
        def make(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
            optimizer: torch.optim.Optimizer = kind(parameters)
            optimizer.train()  # type: ignore[attr-defined]  # theirs alone
            return optimizer

        return make

    return {
        "schedule-free-adamw": state_bytes(trained(schedulefree.AdamWScheduleFree)),
        "schedule-free-sgd": state_bytes(trained(schedulefree.SGDScheduleFree)),
    }


def of_pytorch_optimizer() -> dict[str, int]:
    """SOAP and Lion."""
    pytorch_optimizer = import_module("pytorch_optimizer")

    return {"soap": state_bytes(pytorch_optimizer.SOAP), "lion": state_bytes(pytorch_optimizer.Lion)}


def of_torchao() -> dict[str, int]:
    """Adam in 4 bits and in fp8; without a compiler, which changes no state. In 8 bits it quantises embeddings too."""
    torchao_optim = import_module("torchao.optim")

    torch.compiler.set_stance("force_eager")
    return {
        "adam-4bit": state_bytes(torchao_optim.AdamW4bit),
        "adam-fp8": state_bytes(torchao_optim.AdamWFp8),
    }


def of_bitsandbytes() -> dict[str, int]:
    """Adam and Lion in 8 bits, with 32 for the embedding, the first tensor, as transformers' Trainer asks for."""
    bitsandbytes = import_module("bitsandbytes")

    def kept(kind: type[Any]) -> Make:
        def make(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
            manager = bitsandbytes.optim.GlobalOptimManager.get_instance()
            manager.initialize()  # it knows parameters by address, and a new one may have that of one that is gone
            manager.register_parameters(parameters)
            optimizer: torch.optim.Optimizer = kind(parameters)
            manager.override_config(parameters[0], "optim_bits", 32)
            return optimizer

        return make

    return {
        "adam-8bit": state_bytes(kept(bitsandbytes.optim.AdamW8bit)),
        "lion-8bit": state_bytes(kept(bitsandbytes.optim.Lion8bit)),
        "ademamix": state_bytes(kept(bitsandbytes.optim.AdEMAMix)),
        "ademamix-8bit": state_bytes(kept(bitsandbytes.optim.AdEMAMix8bit)),
    }


PACKAGES: dict[str, Callable[[], dict[str, int]]] = {
    "schedulefree": of_schedulefree,
    "pytorch_optimizer": of_pytorch_optimizer,
    "torchao": of_torchao,
    "bitsandbytes": of_bitsandbytes,
}


if __name__ == "__main__":
    print(json.dumps(PACKAGES[sys.argv[1]]()))
