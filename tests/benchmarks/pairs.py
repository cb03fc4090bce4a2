"""Ratios of rates on a noisy machine: measured by turns, pair by pair, printed, never judged."""

from __future__ import annotations

import contextlib
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from io_bench import interruption
from io_bench.engines import Engine, EnginePlan
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import ResidentPayload
from io_bench.ranks.process_group import Writers, join_group
from io_bench.target import run_place
from io_bench.target.directory import DirectoryTarget
from io_bench.target.target import RunFiles

CPU = Device("cpu")

Rates = dict[str, float]
"""Bytes per second by what was done: "write", "restore"."""


def ratios(ours: Callable[[], Rates], theirs: Callable[[], Rates], *, num_pairs: int) -> dict[str, list[float]]:
    """Our rate over theirs in each pair, by what was done; one pair before them warms up.

    Who goes second finds the disk busy with what the first has left: they take turns.
    """
    kept: dict[str, list[float]] = {}
    for pair in range(num_pairs + 1):
        first, second = (ours, theirs) if pair % 2 else (theirs, ours)
        rates = {first: first(), second: second()}
        if pair:
            for name, rate in rates[ours].items():
                kept.setdefault(name, []).append(rate / rates[theirs][name])
    return kept


def shown(title: str, kept: dict[str, list[float]]) -> None:
    """Print medians and ranges."""
    for name, values in kept.items():
        low, high, count = min(values), max(values), len(values)
        print(f"\n{title}, {name}: {statistics.median(values):.2f} x ({low:.2f} to {high:.2f} in {count} pairs)")


@dataclass(slots=True)
class Payload:
    """Tensors of an inventory, with other bytes for every write."""

    inventory: Inventory
    tensors: ResidentPayload
    repetition: int = 0

    def refill(self) -> None:
        """Make the next bytes."""
        self.repetition += 1
        self.tensors.refill(self.repetition)


def payload_of(inventory: Inventory, device: Device = CPU) -> Payload:
    """A payload that several engines can share."""
    return Payload(inventory, ResidentPayload(inventory, seed=1, rank=0, device=device.name))


@dataclass(frozen=True, slots=True)
class EngineRun:
    """One engine, one rank, as a campaign runs them: new bytes each time, cold restores."""

    engine: Engine
    plan: EnginePlan
    payload: Payload
    files: RunFiles
    device: Device = CPU

    def rates(self) -> Rates:
        """From creating the file to its name being durable; from opening it to tensors in memory."""
        seconds, num_bytes, _ = self._measured()
        return {name: num_bytes / value for name, value in seconds.items()}

    def rates_without_creation(self) -> Rates:
        """By the clock of fio, which creates and opens files before it starts."""
        _, num_bytes, phases = self._measured()
        return {"write": num_bytes / (phases["write"] + phases["fsync"]), "restore": num_bytes / phases["read"]}

    def null_sink_rate(self) -> float:
        """Bytes per second with the writes discarded."""
        seconds = _seconds_of(lambda: self.engine.write_to_null_sink(self.payload.tensors))
        return self.payload.inventory.num_bytes / seconds

    def _measured(self) -> tuple[dict[str, float], int, dict[str, float]]:
        self.payload.refill()
        self.device.synchronize()
        started = time.perf_counter()
        written = self.engine.write(self.payload.tensors, self.files, self.plan)
        write_seconds = time.perf_counter() - started
        num_bytes = self.engine.bytes_on_disk(self.files, self.plan)
        for name in self.plan.files:
            self.files.drop_from_memory(name)
        started = time.perf_counter()
        restored = self.engine.restore(self.files, self.plan, self.device)
        self.device.synchronize()
        seconds = {"write": write_seconds, "restore": time.perf_counter() - started}
        self.files.remove_created()
        return seconds, num_bytes, {**written.phase_seconds, **restored.report.phase_seconds}


@contextmanager
def engine_run(engine: Engine, payload: Payload, directory: Path, *, device: Device = CPU) -> Iterator[EngineRun]:
    """An engine, prepared, with a directory of its own inside `directory`."""
    plan, handlers = engine.plan(payload.inventory, rank=0, device=device), _signal_handlers()
    target = DirectoryTarget.checked(str(directory))
    with (
        join_group(600.0) as group,
        run_place.open_place(target, group, run_id=engine.name, files_of=lambda _: plan.files, keep=False) as files,
        contextlib.closing(engine),
    ):
        engine.prepare(payload.tensors, plan, device=device, writers=Writers((0,), group))
        yield EngineRun(engine, plan, payload, files, device)
    # A run ends with signals ignored.
    for signum, handler in handlers.items():
        signal.signal(signum, handler)


def _signal_handlers() -> dict[signal.Signals, Any]:
    return {signum: signal.getsignal(signum) for signum in interruption.SIGNALS}


def _seconds_of(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
