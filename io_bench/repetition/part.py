"""What one rank does in a repetition; how the ranks go together is `repetition`'s."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from io_bench.engines import Engine, EnginePlan, IoReport, StreamingEngine
from io_bench.engines.torch_files import salvaged
from io_bench.errors import RunFailed, explained_io_errors
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.payload import Payload, checksum
from io_bench.payload.snapshot import Snapshot
from io_bench.planning.plan import WriterPlan
from io_bench.repetition.evidence import Difference, differences
from io_bench.shapes.retention import Retention
from io_bench.target.run_files import RunFiles
from io_bench.timing.request_log import RequestLog


class Part(Protocol):
    """A rank's part. Raises InvalidInput where the target is full, RunFailed for other errors of input and output."""

    @property
    def deletion_seconds(self) -> float | None:
        """Of the checkpoint that the last save removed; None where none had to go."""

    def begin(self, repetition: int) -> str:
        """Make room for the next checkpoint, and its payload; its checksum."""

    def refilled(self, repetition: int) -> str:
        """Make the next payload; its checksum."""

    def write(self) -> IoReport:
        """Write it, and return once it is durable, and gone what was to go within the save."""

    def settle(self) -> None:
        """Out of the clock: wait for what was to go beside the save."""

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

    def restore_as_saved(self) -> IoReport:
        """Read what this rank has saved, where others restore it too; else nothing."""

    def check(self, plan: EnginePlan, expected: str) -> Evidence:
        """What speaks against what was read, where it has another checksum than what was written; out of the clock."""

    def keep(self, names: Sequence[str]) -> None:
        """Leave files where they are, as evidence."""

    def forget(self) -> None:
        """Let go of what was read."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Whether restored data is sound, else where it is wrong: read from `files`; `problem` is why that failed."""

    files: tuple[str, ...] = ()
    problem: str | None = None
    differences: tuple[Difference, ...] = ()
    is_sound: bool = True


class WritingPart:
    """The part of a rank that writes."""

    def __init__(
        self,
        own: WriterPlan,
        *,
        engine: Engine,
        payload: Payload,
        source_payload: Callable[[], Payload],
        retention: Retention,
        device: Device,
        rank: int,
    ) -> None:
        """Args: `source_payload` makes that of the writer whose files this rank restores."""
        self._source_payload = source_payload
        self._own = own
        self._engine = engine
        self._payload = payload
        self._retention = retention
        self._device = device
        self._rank = rank
        self._restored: State | None = None
        self._problem: str | None = None
        self._repetition = 0

    @property
    def deletion_seconds(self) -> float | None:
        """As the retained checkpoints have it."""
        return self._retention.deletion_seconds

    def begin(self, repetition: int) -> str:
        """Also lets go of what the last repetition restored."""
        self.forget()
        written = self.refilled(repetition)
        with explained_io_errors("making room for the next checkpoint", rank=self._rank):
            self._retention.next(self._saved)
        return written

    def follow(self, repetition: int) -> None:
        """Be ready for a checkpoint that another rank writes."""
        self.forget()
        self._retention.next(IoReport)
        self.expect(repetition)

    def forget(self) -> None:
        """The restored copy."""
        self._restored = None

    def expect(self, repetition: int) -> None:
        """From here on, compare with what is written in this repetition."""
        self._repetition = repetition

    def refilled(self, repetition: int) -> str:
        """In memory."""
        self.expect(repetition)
        self._payload.refill(repetition)
        written = checksum(self._payload.state)
        self._device.synchronize()
        return written

    def write(self) -> IoReport:
        """By the engine."""
        with explained_io_errors(f"writing {self._names(self._own.engine_plan)}", rank=self._rank):
            return self._observed(lambda: self._retention.saved(self._saved))

    def settle(self) -> None:
        """As the retained checkpoints have it."""
        with explained_io_errors("removing the oldest checkpoint", rank=self._rank):
            self._retention.settle()

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
        """By the engine, to the device. What cannot be read back is evidence, and no error yet."""
        with explained_io_errors(f"reading {self._names(plan)}", rank=self._rank):
            return self._observed(lambda: self._read(plan))

    def restore_as_saved(self) -> IoReport:
        """Nothing: that is what it restores."""
        return IoReport()

    def check(self, plan: EnginePlan, expected: str) -> Evidence:
        """Over every byte of every tensor."""
        if self._problem is None and self._restored is not None and checksum(self._restored) == expected:
            return Evidence()
        return self._evidence(plan, self._restored if self._problem is None else self._salvaged(plan))

    def keep(self, names: Sequence[str]) -> None:
        """Not to be removed by this rank, nor with the run's place."""
        self._files.keep(names)

    def _evidence(self, plan: EnginePlan, restored: State | None) -> Evidence:
        files = tuple(map(self._files.location, plan.files))
        return Evidence(files, self._problem, tuple(self._differences(restored)), is_sound=False)

    def _differences(self, restored: State | None) -> Iterator[Difference]:
        if restored is not None:
            written = self._source_payload()
            written.refill(self._repetition)
            yield from differences(restored, written)

    def _salvaged(self, plan: EnginePlan) -> State | None:
        """What a file still gives that the engine could not read."""
        return salvaged(self._files.location(plan.files[0]))

    @property
    def _files(self) -> RunFiles:
        return self._retention.files

    def _saved(self) -> IoReport:
        return self._engine.write(self._payload, self._files, self._own.engine_plan)

    def _read(self, plan: EnginePlan) -> IoReport:
        try:
            restored = self._engine.restore(self._files, plan, self._device)
        except RunFailed as error:
            self._problem = str(error)
            return IoReport()
        self._device.synchronize()
        self._restored = restored.state
        return restored.report

    def _observed(self, action: Callable[[], IoReport]) -> IoReport:
        """The report of a write or a restore, with its requests."""
        log = self._files.log = RequestLog()
        return replace(action(), requests=log.summary())

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
        retention: Retention,
        device: Device,
        rank: int,
    ) -> None:
        """Args: `source_payload`, that of the writer whose files this rank restores."""
        super().__init__(
            own,
            engine=engine,
            payload=payload,
            source_payload=lambda: source_payload,
            retention=retention,
            device=device,
            rank=rank,
        )
        self._streaming_engine = engine
        self._source = source_payload

    def refilled(self, repetition: int) -> str:
        """That which is to come, and that of the writer whose files are read."""
        self.expect(repetition)
        self._payload.refill(repetition)
        return ""

    def expect(self, repetition: int) -> None:
        """What is read again is compared with what is made again."""
        super().expect(repetition)
        self._source.refill(repetition)

    def check(self, plan: EnginePlan, expected: str) -> Evidence:  # noqa: ARG002 - there is no checksum
        """Over every byte of the file, read again."""
        with explained_io_errors(f"checking {self._names(plan)}", rank=self._rank):
            if self._problem is None and self._streaming_engine.holds(self._source, self._files, plan):
                return Evidence()
        return self._evidence(plan, self._salvaged(plan))


class WaitingPart:
    """The part of a rank that only goes through the barriers."""

    deletion_seconds: float | None = None

    def begin(self, repetition: int) -> str:  # noqa: ARG002 - nothing to make
        """Nothing to write."""
        return ""

    def refilled(self, repetition: int) -> str:  # noqa: ARG002 - nothing to make
        """Nothing to write."""
        return ""

    def write(self) -> IoReport:
        """Nothing is written."""
        return IoReport()

    def settle(self) -> None:
        """Nothing goes."""

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

    def drop(self, plan: EnginePlan) -> int:  # noqa: ARG002 - it has no pages
        """No pages of its own."""
        return 0

    def restore(self, plan: EnginePlan) -> IoReport:  # noqa: ARG002 - nothing is read
        """Nothing is read."""
        return IoReport()

    def restore_as_saved(self) -> IoReport:
        """Nothing was saved."""
        return IoReport()

    def check(self, plan: EnginePlan, expected: str) -> Evidence:  # noqa: ARG002 - nothing was read
        """Nothing was read."""
        return Evidence()

    def keep(self, names: Sequence[str]) -> None:
        """It has made none."""

    def forget(self) -> None:
        """Nothing was read."""


class ReadingPart(WaitingPart):
    """The part of a rank of a later replica: it waits while the first writes, then restores what that has written."""

    def __init__(self, reader: WritingPart) -> None:
        """Args: `reader` has the payload and the plan of the shard that it reads."""
        self._reader = reader

    def begin(self, repetition: int) -> str:
        """Go where the first replica goes, to the next checkpoint."""
        self._reader.follow(repetition)
        return ""

    def drop(self, plan: EnginePlan) -> int:
        """From the page cache of its own node."""
        return self._reader.drop(plan)

    def restore(self, plan: EnginePlan) -> IoReport:
        """By the engine."""
        return self._reader.restore(plan)

    def check(self, plan: EnginePlan, expected: str) -> Evidence:
        """As who has written it."""
        return self._reader.check(plan, expected)

    def forget(self) -> None:
        """What was read."""
        self._reader.forget()
