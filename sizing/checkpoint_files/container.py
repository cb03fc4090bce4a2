"""Contents of one container, as its reader returns them.

A container is a safetensors file, a folder of torch DCP or Orbax, or a torch.save file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sizing.checkpoint_files.contents import Format
from sizing.checkpoint_files.saving_ranks import SavingRanks


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a checkpoint, with its name and size there.

    `num_elements` and `num_bytes` are what this tensor adds: a second name for stored data adds none, and a view of
    partly stored data adds the rest. `shape` and `dtype` are always its own. `content` is a checksum of its values,
    None if the file has none for this tensor alone.
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
    """Tensors of one container, and the files of which it consists.

    `is_state_dict`: it holds tensors by name and nothing else. `absent_files`: files that it names but that are not
    there. `known_parameters`, `known_tensor_bytes`: totals that replace tensors that cannot be listed. `keys`: the
    first words of all names in it, of tensors or not. `value_bytes`: the bytes of each value that is not a tensor, if
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
    settings: tuple[tuple[str, float | None], ...] = ()
    ranks: SavingRanks | None = None
    notes: tuple[str, ...] = ()
