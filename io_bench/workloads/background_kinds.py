"""Background loads, which a save slows and which slow a save: batches that are read, or training's own arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from io_bench.target.target import RunFiles

if TYPE_CHECKING:
    from io_bench.workloads.background_load import BackgroundLoad


DEFAULT_BATCH_BYTES = 4 << 20
"""A choice: a few dozen images, or a sequence of tokens for each GPU of a node, and a request like those of loaders
that read shards."""
MIN_ALONE_SECONDS = 0.5
"""A choice: the rate of what is read or computed alone is counted for as long as a save takes, but not shorter."""


class BackgroundKind(Protocol):
    """A kind of background load. `unit` is what its rates count.

    `needs_asynchronous` says that a save which stalls leaves it no time.
    """

    name: str
    unit: str
    summary: str
    needs_asynchronous: bool
    needs_directory: bool

    def files(self, index: int) -> tuple[str, ...]:
        """Files of a writer on the target."""

    def disk_bytes(self, payload_bytes: int) -> int:
        """Bytes of these files."""

    def start(self, files: RunFiles, *, index: int, payload_bytes: int, batch_bytes: int) -> BackgroundLoad:
        """Make ready, before the clock. Raises OSError. May import torch."""


class Batches:
    """A process reads batches at random places of a file on the target, one after another, as a loader does."""

    name = "batches"
    unit = "bytes"
    summary = "a loader that reads batches from the target"
    needs_asynchronous = False
    needs_directory = True

    def files(self, index: int) -> tuple[str, ...]:
        """The file to read from."""
        return (f"batches-{index:05d}.bin",)

    def disk_bytes(self, payload_bytes: int) -> int:
        """Size of the file to read from: that of a save, so that caches that the save passes hold little of it."""
        return max(payload_bytes, 4 * DEFAULT_BATCH_BYTES)

    def start(self, files: RunFiles, *, index: int, payload_bytes: int, batch_bytes: int) -> BackgroundLoad:
        """Write the file, and start the process."""
        from io_bench.workloads.background_load import BatchReading  # noqa: PLC0415 - imports numpy, which flags do not need

        (name,) = self.files(index)
        return BatchReading(files, name, num_bytes=self.disk_bytes(payload_bytes), batch_bytes=batch_bytes, seed=index)


class Compute:
    """Training steps: matrix products on the CPUs of the rank, in its own process, as where training calls a save."""

    name = "compute"
    unit = "steps"
    summary = "training steps on the CPU while an asynchronous engine drains"
    needs_asynchronous = True
    needs_directory = False

    def files(self, index: int) -> tuple[str, ...]:  # noqa: ARG002 - none
        """Need no file."""
        return ()

    def disk_bytes(self, payload_bytes: int) -> int:  # noqa: ARG002 - none
        """0: there is no file."""
        return 0

    def start(
        self,
        files: RunFiles,  # noqa: ARG002 - it needs nothing
        *,
        index: int,  # noqa: ARG002 - likewise
        payload_bytes: int,  # noqa: ARG002 - likewise
        batch_bytes: int,  # noqa: ARG002 - likewise
    ) -> BackgroundLoad:
        """Make ready to train."""
        from io_bench.workloads.background_load import TrainingLoad  # noqa: PLC0415 - imports torch: a second

        return TrainingLoad()


BACKGROUND_KINDS: Mapping[str, BackgroundKind] = {entry.name: entry for entry in (Batches(), Compute())}
"""Kinds of background load by their names on the command line."""


def background_files(name: str | None, index: int) -> tuple[str, ...]:
    """Files of a writer on the target for what runs beside its saves."""
    return BACKGROUND_KINDS[name].files(index) if name else ()


def background_disk_bytes(name: str | None, payload_bytes: Sequence[int]) -> int:
    """The bytes of all writers' files of that kind."""
    return sum(map(BACKGROUND_KINDS[name].disk_bytes, payload_bytes)) if name else 0
