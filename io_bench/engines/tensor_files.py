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
from io_bench.engines.phases import Phases, write_durably
from io_bench.engines.torch_files import loading, save
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload
from io_bench.ranks.process_group import Writers
from io_bench.target.target import RunFiles

_MAX_BYTES_PER_FILE = 4 * 1024
"""Bytes of a zip container beside its one tensor; about 1,300 as measured."""

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
        """Plan a file per tensor; `torch.load` builds a second copy of all of them."""
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
        """Do nothing: each save begins anew."""

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Create, write and fsync file after file in each thread; fsync the directory. Phases are of the slowest."""
        of_files = list(zip(plan.files, _assign_to_files(payload.state, len(plan.files)), strict=True))
        threads = self._in_threads(
            of_files, lambda phases, each: write_durably(files, each[0], functools.partial(save, each[1]), phases)
        )
        commit = Phases()
        with commit.phase("commit"):
            files.sync()
        return IoReport(phase_seconds=_slowest(threads) | commit.seconds)

    def write_to_null_sink(self, payload: Payload) -> None:
        for values in _assign_to_files(payload.state, sum(1 for _ in _values(payload.state))):
            with Path(os.devnull).open("wb") as sink:
                save(values, sink)

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read every file into memory, as many at once as are written at once."""
        loaded: dict[str, dict[_Path, Any]] = {}

        def read(phases: Phases, name: str) -> None:
            with phases.phase("open"):
                opened = files.open(name)
            with opened, phases.phase("read"), loading(opened, files.location(name)) as file:
                loaded[name] = torch.load(file, map_location=device.name, weights_only=True, mmap=False)

        threads = self._in_threads(plan.files, read)
        state = _merge_files([loaded[name] for name in plan.files])
        return Restored(state, IoReport(phase_seconds=_slowest(threads)))

    def bytes_on_disk(self, files: RunFiles, plan: EnginePlan) -> int:
        return sum(map(files.num_bytes, plan.files))

    def close(self) -> None:
        pass

    def _in_threads(self, items: Sequence[Any], work: Any) -> list[Phases]:
        """Work on all items, each thread on the next that is left; return where each thread's time went."""
        # One iterator for all threads: taking the next of a tuple is one step of the interpreter.
        queue = iter(tuple(items))

        def work_through() -> Phases:
            phases = Phases()
            for item in queue:
                work(phases, item)
            return phases

        with ThreadPoolExecutor(self._num_threads) as pool:
            return [future.result() for future in [pool.submit(work_through) for _ in range(self._num_threads)]]


def _slowest(threads: Sequence[Phases]) -> dict[str, float]:
    """Seconds by phase of the thread that took the longest."""
    return max((phases.seconds for phases in threads), key=lambda seconds: sum(seconds.values()))


def _values(state: Mapping[str, Any], path: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    """The values of a nested state dict with the keys that lead to them, in its order."""
    for key, value in state.items():
        if isinstance(value, Mapping):
            yield from _values(value, (*path, key))
        else:
            yield (*path, key), value


def _assign_to_files(state: State, num_files: int) -> list[dict[_Path, Any]]:
    """Assign the values to files, in turn."""
    of_files: list[dict[_Path, Any]] = [{} for _ in range(num_files)]
    for number, (path, value) in enumerate(_values(state)):
        of_files[number % num_files][path] = value
    return of_files


def _merge_files(of_files: Sequence[Mapping[_Path, Any]]) -> State:
    """Build the state dict of all files, in its order."""
    state: State = {}
    for row in itertools.zip_longest(*(values.items() for values in of_files)):
        for (*path, last), value in filter(None, row):
            place = state
            for key in path:
                place = place.setdefault(key, {})
            place[last] = value
    return state
