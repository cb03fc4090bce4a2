"""A tiny model after one step of AdamW, and what torch says of the state that is saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from sizing.checkpoint_files.container import StoredTensor
from tests.sizing.checkpoint_files.library_folders import llama

Described = dict[str, tuple[str, tuple[int, ...]]]


def tiny_llama(*, tied: bool = False, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The model that the libraries train, too, whose folders the long tests read."""
    model: torch.nn.Module = llama("tiny", tied=tied)
    return model.to(dtype)


def stepped(model: torch.nn.Module, **options: Any) -> torch.optim.AdamW:
    """AdamW after one step on the model."""
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    tokens = torch.arange(8).reshape(1, 8)
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    return optimizer


def num_parameters(model: torch.nn.Module) -> int:
    """Parameters as torch counts them, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def flattened(state: object, prefix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor of nested dicts and lists, by the keys that lead to it."""
    if isinstance(state, torch.Tensor):
        yield prefix, state
    elif isinstance(state, Mapping):
        for key, value in state.items():
            yield from flattened(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(state, (list, tuple)):
        for i, value in enumerate(state):
            yield from flattened(value, f"{prefix}.{i}" if prefix else str(i))


def described(state: object) -> Described:
    """Name, dtype and shape of every tensor, in torch's words."""
    return {name: (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for name, tensor in flattened(state)}


def read(tensors: tuple[StoredTensor, ...]) -> Described:
    """The same of the tensors that were read."""
    return {tensor.name: (tensor.dtype, tensor.shape) for tensor in tensors}
