"""What one container holds: a safetensors file, a DCP folder or a torch.save file, as its reader found it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sizing.checkpoint_files.kinds import Format


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a checkpoint: how it is named there, and what it takes.

    `num_elements` and `num_bytes` are what this tensor adds: a second name for stored data has none, and a
    view of data that is partly stored already has the rest. `shape` and `dtype` are always its own. `content` is a
    checksum of its values; None where the file has none of this tensor alone.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_elements: int
    num_bytes: int
    is_alias: bool = False
    content: int | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """The tensors of one container and the files that it is made of.

    `is_state_dict`: it holds tensors by name and nothing else. `absent_files` are named by it but not there.
    `known_parameters` and `known_tensor_bytes` stand in where the tensors themselves cannot be listed. `keys` are the
    first words of all names in it, of tensors or not; `value_bytes` the bytes of each value that is no tensor, where
    the container states them.
    """

    format: Format
    paths: tuple[Path, ...]
    tensors: tuple[StoredTensor, ...]
    is_state_dict: bool
    absent_files: tuple[str, ...] = ()
    known_parameters: int | None = None
    known_tensor_bytes: int | None = None
    keys: frozenset[str] = frozenset()
    value_bytes: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()
