"""Roles of ranks in a repetition: what each writes, reads and checks. `sample` calls them in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from io_bench.engines import Engine, EnginePlan, IoReport, StreamingEngine
from io_bench.engines.torch_files import salvage
from io_bench.errors import RunFailed, explained_io_errors
from io_bench.measure.evidence import Evidence, differences
from io_bench.measure.plan import WriterPlan
from io_bench.payload import State
from io_bench.payload.device import Device
from io_bench.payload.payload import Payload, Snapshot, checksum
from io_bench.target.request_log import RequestLog
from io_bench.target.target import RunFiles
from io_bench.workloads.retention import CheckpointRetention

if TYPE_CHECKING:
    from io_bench.workloads.resharded_dcp import ReshardedDcp  # noqa: F401 - in quotes: DTensor takes a second


class RankRole(Protocol):
    """The role of one rank in a repetition.

    Methods raise InvalidInput where the target is full, RunFailed for other errors of input and output.
    """

    @property
    def deletion_seconds(self) -> float | None:
        """Seconds that removing a checkpoint took in the last save; None where none had to go."""

    def begin(self, repetition: int) -> str:
        """Make room for the next checkpoint, and make its payload; return the payload's checksum."""

    def refill(self, repetition: int) -> str:
        """Make the next payload; return its checksum."""

    def write(self) -> IoReport:
        """Write the payload; return once it is durable, and what was to go within the save is gone."""

    def settle(self) -> None:
        """Wait, out of the clock, for what was to go beside the save."""

    def discard(self) -> None:
        """Do all that writing takes but the I/O."""

    def snapshot(self) -> Callable[[], None]:
        """Take the buffer, and return what copies the payload from its device to host memory."""

    def num_bytes(self) -> int:
        """Count the bytes on disk."""

    def resident_pages(self) -> int:
        """Count the pages of what was written that are in this node's page cache."""

    def drop(self, plan: EnginePlan) -> int:
        """Drop the files of a plan from this node's page cache; return the number of pages that stay."""

    def restore(self, plan: EnginePlan) -> IoReport:
        """Read the files of a plan into memory."""

    def restore_as_saved(self) -> IoReport:
        """Read what this rank has saved, where others restore it too; else nothing."""

    def check(self, plan: EnginePlan, expected: str) -> Evidence:
        """Collect, out of the clock, the evidence against what was read, where its checksum is not the expected one."""

    def keep(self, names: Sequence[str]) -> None:
        """Leave files where they are, as evidence."""

    def forget(self) -> None:
        """Release what was read."""


AnyEngine = TypeVar("AnyEngine", bound=Engine)


class WriterRole(Generic[AnyEngine]):
    """The role of a rank that writes, and restores what it or another has written."""

    def __init__(
        self,
        own: WriterPlan,
        *,
        engine: AnyEngine,
        payload: Payload,
        source_payload: Callable[[], Payload],
        retention: CheckpointRetention,
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
        return self._retention.deletion_seconds

    def begin(self, repetition: int) -> str:
        self.forget()
        written = self.refill(repetition)
        with explained_io_errors("making room for the next checkpoint", rank=self._rank):
            self._retention.next(self._save)
        return written

    def follow(self, repetition: int) -> None:
        """Go to the next checkpoint, which another rank writes."""
        self.forget()
        self._retention.next(IoReport)
        self.expect(repetition)

    def forget(self) -> None:
        self._restored = None

    def expect(self, repetition: int) -> None:
        """Compare from here on with what is written in this repetition."""
        self._repetition = repetition

    def refill(self, repetition: int) -> str:
        self.expect(repetition)
        self._payload.refill(repetition)
        written = checksum(self._payload.state)
        self._device.synchronize()
        return written

    def write(self) -> IoReport:
        with explained_io_errors(f"writing {self._names(self._own.engine_plan)}", rank=self._rank):
            return self._log_requests(lambda: self._retention.saved(self._save))

    def settle(self) -> None:
        with explained_io_errors("removing the oldest checkpoint", rank=self._rank):
            self._retention.settle()

    def discard(self) -> None:
        self._engine.write_to_null_sink(self._payload)

    def snapshot(self) -> Callable[[], None]:
        return Snapshot(self._payload.state, self._device).copy

    def num_bytes(self) -> int:
        """Count the bytes on disk, once the target is still where it was."""
        plan = self._own.engine_plan
        with explained_io_errors(f"writing {self._names(plan)}", rank=self._rank):
            self._files.check_place()
        with explained_io_errors(f"counting cached pages of {self._names(plan)}", rank=self._rank):
            return self._engine.bytes_on_disk(self._files, plan)

    def resident_pages(self) -> int:
        plan = self._own.engine_plan
        with explained_io_errors(f"looking for {self._names(plan)} in memory", rank=self._rank):
            return sum(map(self._files.num_resident_pages, plan.files))

    def drop(self, plan: EnginePlan) -> int:
        with explained_io_errors(f"dropping {self._names(plan)} from memory", rank=self._rank):
            return sum(map(self._files.drop_from_memory, plan.files))

    def restore(self, plan: EnginePlan) -> IoReport:
        """Read by the engine, to the device. What cannot be read back is evidence, and no error yet."""
        with explained_io_errors(f"reading {self._names(plan)}", rank=self._rank):
            return self._log_requests(lambda: self._read(plan))

    def restore_as_saved(self) -> IoReport:
        return IoReport()

    def check(self, plan: EnginePlan, expected: str) -> Evidence:
        """Compare every byte of every tensor."""
        if self._problem is None and self._restored is not None and checksum(self._restored) == expected:
            return Evidence()
        return self._collect_evidence(plan, self._restored if self._problem is None else self._salvage(plan))

    def keep(self, names: Sequence[str]) -> None:
        """Leave files where they are: neither this rank nor the end of the run removes them."""
        self._files.keep(names)

    def _collect_evidence(self, plan: EnginePlan, restored: State | None) -> Evidence:
        files = tuple(map(self._files.location, plan.files))
        if restored is None:
            return Evidence(files, self._problem, is_sound=False)
        written = self._source_payload()
        written.refill(self._repetition)
        return Evidence(files, self._problem, tuple(differences(restored, written)), is_sound=False)

    def _salvage(self, plan: EnginePlan) -> State | None:
        """Load what a file still holds that the engine could not read."""
        return salvage(self._files.location(plan.files[0]))

    @property
    def _files(self) -> RunFiles:
        return self._retention.files

    def _save(self) -> IoReport:
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

    def _log_requests(self, action: Callable[[], IoReport]) -> IoReport:
        """Run a write or a restore, and add its requests to its report."""
        log = self._files.log = RequestLog()
        return replace(action(), requests=log.summary())

    def _names(self, plan: EnginePlan) -> str:
        return ", ".join(map(self._files.location, plan.files))


class StreamingWriterRole(WriterRole[StreamingEngine]):
    """The role of a rank that makes its payload while it writes: its files are read again to be checked."""

    def refill(self, repetition: int) -> str:
        """Prepare the payload that is to be made, and that of the writer whose files are read."""
        self.expect(repetition)
        self._payload.refill(repetition)
        return ""

    def expect(self, repetition: int) -> None:
        """Have the payload of the writer whose files are read made again for this repetition."""
        super().expect(repetition)
        self._source_payload().refill(repetition)

    def check(self, plan: EnginePlan, expected: str) -> Evidence:  # noqa: ARG002 - there is no checksum
        """Read every byte of the file again, and compare it with the payload made again."""
        with explained_io_errors(f"checking {self._names(plan)}", rank=self._rank):
            if self._problem is None and self._engine.holds(self._source_payload(), self._files, plan):
                return Evidence()
        return self._collect_evidence(plan, self._salvage(plan))


class IdleRole:
    """The role of a rank that only goes through the barriers: nothing is written, read or removed."""

    deletion_seconds: float | None = None

    def begin(self, repetition: int) -> str:  # noqa: ARG002 - nothing to make
        return ""

    def refill(self, repetition: int) -> str:  # noqa: ARG002 - nothing to make
        return ""

    def write(self) -> IoReport:
        return IoReport()

    def settle(self) -> None:
        pass

    def discard(self) -> None:
        pass

    def snapshot(self) -> Callable[[], None]:
        return lambda: None

    def num_bytes(self) -> int:
        return 0

    def resident_pages(self) -> int:
        return 0

    def drop(self, plan: EnginePlan) -> int:  # noqa: ARG002 - it has no pages
        return 0

    def restore(self, plan: EnginePlan) -> IoReport:  # noqa: ARG002 - nothing is read
        return IoReport()

    def restore_as_saved(self) -> IoReport:
        return IoReport()

    def check(self, plan: EnginePlan, expected: str) -> Evidence:  # noqa: ARG002 - nothing was read
        return Evidence()

    def keep(self, names: Sequence[str]) -> None:
        pass

    def forget(self) -> None:
        pass


class ReplicaReaderRole(IdleRole):
    """The role of a rank of a later replica: it waits while the first writes, then restores what the first wrote."""

    def __init__(self, reader: WriterRole[Any]) -> None:
        """Args: `reader` has the payload and the plan of the shard that it reads."""
        self._reader = reader

    def begin(self, repetition: int) -> str:
        """Go to the next checkpoint, as the first replica does."""
        self._reader.follow(repetition)
        return ""

    def drop(self, plan: EnginePlan) -> int:
        """Drop files from the page cache of this rank's own node."""
        return self._reader.drop(plan)

    def restore(self, plan: EnginePlan) -> IoReport:
        return self._reader.restore(plan)

    def check(self, plan: EnginePlan, expected: str) -> Evidence:
        return self._reader.check(plan, expected)

    def forget(self) -> None:
        self._reader.forget()


class ReshardedWriterRole(WriterRole["ReshardedDcp"]):
    """The role of a rank whose checkpoint other ranks restore.

    The rows that it restores are compared, byte by byte, with those of the ranks that saved them, and so is what it
    reads back of its own.
    """

    _written = ""
    _read_back: State | None = None

    def refill(self, repetition: int) -> str:
        self._written = super().refill(repetition)
        return self._written

    def restore_as_saved(self) -> IoReport:
        plan = self._own.engine_plan
        with explained_io_errors(f"reading {self._names(plan)}", rank=self._rank):
            return self._log_requests(lambda: self._read_as_saved(plan))

    def check(self, plan: EnginePlan, expected: str) -> Evidence:  # noqa: ARG002 - it holds rows of several ranks
        if self._read_back is not None and checksum(self._read_back) != self._written:
            problem = "What this rank had saved differs where it reads it back."
            return Evidence(tuple(map(self._files.location, plan.files)), problem, is_sound=False)
        evidence = self._collect_evidence(plan, self._restored if self._problem is None else None)
        return evidence if evidence.problem or evidence.differences else Evidence()

    def forget(self) -> None:
        super().forget()
        self._read_back = None

    def _read_as_saved(self, plan: EnginePlan) -> IoReport:
        restored = self._engine.restore_as_saved(self._files, plan)
        self._read_back = restored.state
        return restored.report
