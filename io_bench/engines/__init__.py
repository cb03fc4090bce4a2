"""Engines: the ways to write a checkpoint and to read it back.

An engine says in its plan, before the clock, which files a rank writes, how many bytes they will have and
what host memory it needs; then it writes, restores and reports. Each is entered once in `ENGINES` and
passes the contract class in `tests/io_bench/test_engines.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sizing.storage.measurement import CachePolicy

if TYPE_CHECKING:
    from io_bench.device import Device
    from io_bench.inventory import Inventory
    from io_bench.run_directory import RunDirectory

State = dict[str, Any]
"""A nested state dict: tensors and plain values, as `torch.save` takes it."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """What one rank's part of a checkpoint will take.

    `most_disk_bytes` is an upper bound, container included. `host_bytes` is host memory beyond the
    payload, at the worst moment of write or restore; `gpu_bytes` likewise on the GPU.
    """

    files: tuple[str, ...]
    most_disk_bytes: int
    host_bytes: int
    gpu_bytes: int


class Engine(Protocol):
    """One way to write and restore. Errors of the operating system leave it as OSError."""

    name: str
    write_cache_policy: CachePolicy

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """The plan for one rank's state dict."""

    def write(self, state: State, directory: RunDirectory, plan: EnginePlan) -> None:
        """Create the files and write `state`; returns once it is durable."""

    def restore(self, directory: RunDirectory, plan: EnginePlan, device: Device) -> State:
        """The state dict, every byte of it read into memory. Raises RunFailed where it is unreadable."""

    def bytes_on_disk(self, directory: RunDirectory, plan: EnginePlan) -> int:
        """Bytes of the files as they were written."""


def _torch_save() -> Engine:
    from io_bench.engines.torch_save import TorchSave  # noqa: PLC0415 - torch takes a second to import

    return TorchSave()


ENGINES: Mapping[str, Callable[[], Engine]] = {"torch-save": _torch_save}
"""Every engine by its name on the command line, and how to make it."""
