"""`tensor-files`: a `torch.save` file for every tensor, as frameworks that keep a file per parameter write them."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from io_bench.engines import EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.phases import Phases
from io_bench.engines.plain_files import write_durably
from io_bench.engines.torch_files import loading, save
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.ranks.writers import Writers
from io_bench.target.run_files import RunFiles

_MAX_BYTES_PER_FILE = 4 * 1024
"""Of a zip container with one tensor; about 1,300 as measured."""

_Path = tuple[str, ...]


class TensorFiles:
    """File i of n has the i-th, the (n + i)-th value and so on of the state dict: of a planned payload one tensor each.

    Each file is made durable before its thread begins the next; `--threads` of them are written at once, else one.
    """

    name = "tensor-files"

    def __init__(self, options: EngineOptions) -> None:
        """Takes the number of threads."""
        self._num_threads = options.num_threads or 1

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """A file per tensor; `torch.load` builds a second copy of all of them."""
        num_files = max(1, inventory.num_tensors)
        largest = self._num_threads * inventory.largest_tensor_bytes
        return EnginePlan(
            files=tuple(f"rank-{rank:05d}-{number:05d}.pt" for number in range(num_files)),
            max_disk_bytes=inventory.num_bytes + num_files * _MAX_BYTES_PER_FILE,
            host_bytes=2 * largest if device.is_gpu else inventory.num_bytes,
            gpu_bytes=inventory.num_bytes if device.is_gpu else 0,
            num_threads=self._num_threads,
        )

    def prepare(self, payload: Payload, plan: EnginePlan, *, device: Device, writers: Writers) -> None:
        """Nothing: each save begins anew."""

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Create, write and fsync file after file in each thread; fsync the directory. Phases are of the slowest."""
        of_files = list(zip(plan.files, _dealt(payload.state, len(plan.files)), strict=True))
        threads = self._in_threads(
            of_files, lambda phases, each: write_durably(files, each[0], functools.partial(save, each[1]), phases)
        )
        commit = Phases()
        with commit.phase("commit"):
            files.sync()
        return IoReport(phase_seconds=_slowest(threads) | commit.seconds)

    def write_to_null_sink(self, payload: Payload) -> None:
        """Value by value to a device that takes everything."""
        for values in _dealt(payload.state, sum(1 for _ in _values(payload.state))):
            with Path(os.devnull).open("wb") as sink:
                save(values, sink)

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read every file into memory, as many at once as are written at once."""
        loaded: dict[str, dict[_Path, Any]] = {}

        def read(phases: Phases, name: str) -> None:
            with phases.phase("open"):
                file = files.open(name)
            with file, phases.phase("read"), loading(files.location(name)):
                loaded[name] = torch.load(file, map_location=device.name, weights_only=True, mmap=False)

        threads = self._in_threads(plan.files, read)
        state = _together([loaded[name] for name in plan.files])
        return Restored(state, IoReport(phase_seconds=_slowest(threads)))

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        """The sizes of the files."""
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        """Nothing is held."""

    def _in_threads(self, items: Sequence[Any], work: Any) -> list[Phases]:
        """Do the work of all items, each thread the next that is left; what each thread's time went into."""
        # One iterator for all threads: taking the next of a tuple is one step of the interpreter.
        left = iter(tuple(items))

        def worked() -> Phases:
            phases = Phases()
            for item in left:
                work(phases, item)
            return phases

        with ThreadPoolExecutor(self._num_threads) as pool:
            return [future.result() for future in [pool.submit(worked) for _ in range(self._num_threads)]]


def _slowest(threads: Sequence[Phases]) -> dict[str, float]:
    """Of the thread that took the longest."""
    return max((phases.seconds for phases in threads), key=lambda seconds: sum(seconds.values()))


def _values(state: Mapping[str, Any], path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """The values of a nested state dict with the keys that lead to them, in its order."""
    for key, value in state.items():
        if isinstance(value, Mapping):
            yield from _values(value, (*path, key))
        else:
            yield (*path, key), value


def _dealt(state: State, num_files: int) -> list[dict[_Path, Any]]:
    """The values of each file."""
    dealt: list[dict[_Path, Any]] = [{} for _ in range(num_files)]
    for number, (path, value) in enumerate(_values(state)):
        dealt[number % num_files][path] = value
    return dealt


def _together(dealt: Sequence[Mapping[_Path, Any]]) -> State:
    """The state dict of all files, in its order."""
    state: State = {}
    for row in itertools.zip_longest(*(values.items() for values in dealt)):
        for (*path, last), value in filter(None, row):
            place = state
            for key in path:
                place = place.setdefault(key, {})
            place[last] = value
    return state
