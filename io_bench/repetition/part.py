"""What one rank does in a repetition; how the ranks go together is `repetition`'s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from io_bench.engines import Engine, EnginePlan, IoReport, StreamingEngine
from io_bench.errors import RunFailed, explained_io_errors
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.payload import Payload, checksum
from io_bench.payload.snapshot import Snapshot
from io_bench.planning.plan import WriterPlan
from io_bench.target.run_files import RunFiles


class Part(Protocol):
    """A rank's part. Raises InvalidInput where the target is full, RunFailed for other errors of input and output."""

    def begin(self, repetition: int) -> str:
        """Remove the previous checkpoint and make the next payload; its checksum."""

    def write(self) -> IoReport:
        """Write it, and return once it is durable."""

    def discard(self) -> None:
        """Do all that writing takes but the I/O."""

    def snapshot(self) -> Callable[[], None]:
        """What copies the payload from its device to host memory, its buffer taken."""

    def num_bytes(self) -> int:
        """Bytes on disk."""

    def resident_pages(self) -> int:
        """Pages of what was written that are in this node's page cache."""

    def drop(self, plan: EnginePlan) -> int:
        """Drop the files of a plan from this node's page cache; pages that stay."""

    def restore(self, plan: EnginePlan) -> IoReport:
        """Read the files of a plan into memory."""

    def check(self, plan: EnginePlan, expected: str) -> None:
        """Raise RunFailed where what was read has another checksum than what was written."""


class WritingPart:
    """The part of a rank that writes."""

    def __init__(
        self,
        own: WriterPlan,
        *,
        engine: Engine,
        payload: Payload,
        files: RunFiles,
        device: Device,
        rank: int,
    ) -> None:
        self._own = own
        self._engine = engine
        self._payload = payload
        self._files = files
        self._device = device
        self._rank = rank
        self._restored: State | None = None

    def begin(self, repetition: int) -> str:
        """Also lets go of what the last repetition restored."""
        self._restored = None
        with explained_io_errors("removing the previous checkpoint", rank=self._rank):
            self._files.remove_created()
        return self._refilled(repetition)

    def write(self) -> IoReport:
        """By the engine."""
        plan = self._own.engine_plan
        with explained_io_errors(f"writing {self._names(plan)}", rank=self._rank):
            return self._engine.write(self._payload, self._files, plan)

    def discard(self) -> None:
        """By the engine."""
        self._engine.write_to_null_sink(self._payload)

    def snapshot(self) -> Callable[[], None]:
        """Of the last payload."""
        return Snapshot(self._payload.state, self._device).copy

    def num_bytes(self) -> int:
        """As the engine finds them."""
        plan = self._own.engine_plan
        with explained_io_errors(f"counting cached pages of {self._names(plan)}", rank=self._rank):
            return self._engine.bytes_on_disk(self._files, plan)

    def resident_pages(self) -> int:
        """File by file."""
        plan = self._own.engine_plan
        with explained_io_errors(f"looking for {self._names(plan)} in memory", rank=self._rank):
            return sum(map(self._files.num_resident_pages, plan.files))

    def drop(self, plan: EnginePlan) -> int:
        """File by file."""
        with explained_io_errors(f"dropping {self._names(plan)} from memory", rank=self._rank):
            return sum(map(self._files.drop_from_memory, plan.files))

    def restore(self, plan: EnginePlan) -> IoReport:
        """By the engine, to the device."""
        with explained_io_errors(f"reading {self._names(plan)}", rank=self._rank):
            restored = self._engine.restore(self._files, plan, self._device)
        self._device.synchronize()
        self._restored = restored.state
        return restored.report

    def check(self, plan: EnginePlan, expected: str) -> None:
        """Over every byte of every tensor."""
        if not self._is_equal(plan, expected):
            raise RunFailed(
                f"Verification failed: the data that rank {self._rank} restored from {self._names(plan)} differs from "
                "the data written. Do not use this storage for checkpoints."
            )

    def _refilled(self, repetition: int) -> str:
        """The checksum of the next payload, once it is made."""
        self._payload.refill(repetition)
        written = checksum(self._payload.state)
        self._device.synchronize()
        return written

    def _is_equal(self, plan: EnginePlan, expected: str) -> bool:  # noqa: ARG002 - it is in memory
        return self._restored is not None and checksum(self._restored) == expected

    def _names(self, plan: EnginePlan) -> str:
        return ", ".join(map(self._files.location, plan.files))


class StreamingPart(WritingPart):
    """The part of a rank that makes its payload while it writes: its files are read again to be checked."""

    def __init__(
        self,
        own: WriterPlan,
        *,
        engine: StreamingEngine,
        payload: Payload,
        source_payload: Payload,
        files: RunFiles,
        device: Device,
        rank: int,
    ) -> None:
        """Args: `source_payload`, that of the writer whose files this rank restores."""
        super().__init__(own, engine=engine, payload=payload, files=files, device=device, rank=rank)
        self._streaming_engine = engine
        self._source_payload = source_payload

    def _refilled(self, repetition: int) -> str:
        self._payload.refill(repetition)
        self._source_payload.refill(repetition)
        return ""

    def _is_equal(self, plan: EnginePlan, expected: str) -> bool:  # noqa: ARG002 - there is no checksum
        with explained_io_errors(f"checking {self._names(plan)}", rank=self._rank):
            return self._streaming_engine.holds(self._source_payload, self._files, plan)


class WaitingPart:
    """The part of a rank that only goes through the barriers."""

    def begin(self, repetition: int) -> str:  # noqa: ARG002 - nothing to make
        """Nothing to write."""
        return ""

    def write(self) -> IoReport:
        """Nothing is written."""
        return IoReport()

    def discard(self) -> None:
        """Nothing is discarded."""

    def snapshot(self) -> Callable[[], None]:
        """Nothing to copy."""
        return lambda: None

    def num_bytes(self) -> int:
        """None."""
        return 0

    def resident_pages(self) -> int:
        """None of its own."""
        return 0

    def drop(self, plan: EnginePlan) -> int:  # noqa: ARG002
        """No pages of its own."""
        return 0

    def restore(self, plan: EnginePlan) -> IoReport:  # noqa: ARG002
        """Nothing is read."""
        return IoReport()

    def check(self, plan: EnginePlan, expected: str) -> None:
        """Nothing was read."""
