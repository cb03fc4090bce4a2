"""What runs beside a save, of which each takes from the other: batches that are read, or training's own arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from io_bench.shapes.company import Company
from io_bench.target.run_files import RunFiles

DEFAULT_BATCH_BYTES = 4 << 20
"""A choice: a few dozen images, or a sequence of tokens for each GPU of a node, and a request like those of loaders
that read shards."""
MIN_ALONE_SECONDS = 0.5
"""A choice: the rate of what is read or computed alone is counted for as long as a save takes, but not shorter."""


class CompanyEntry(Protocol):
    """One kind. `unit` is what its rates count; `needs_asynchronous` where a save that stalls leaves it no time."""

    name: str
    unit: str
    summary: str
    needs_asynchronous: bool
    needs_directory: bool

    def files(self, index: int) -> tuple[str, ...]:
        """What a writer has on the target for it."""

    def disk_bytes(self, payload_bytes: int) -> int:
        """The bytes of these."""

    def start(self, files: RunFiles, *, index: int, payload_bytes: int, batch_bytes: int) -> Company:
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
        """As large as what is saved: a loader finds little of it in the caches that a save goes through."""
        return max(payload_bytes, 4 * DEFAULT_BATCH_BYTES)

    def start(self, files: RunFiles, *, index: int, payload_bytes: int, batch_bytes: int) -> Company:
        """Write the file, and start the process."""
        from io_bench.shapes.batches import BatchReading  # noqa: PLC0415 - imports numpy, which flags do not need

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
        """None."""
        return ()

    def disk_bytes(self, payload_bytes: int) -> int:  # noqa: ARG002 - none
        """None."""
        return 0

    def start(
        self,
        files: RunFiles,  # noqa: ARG002 - it needs nothing
        *,
        index: int,  # noqa: ARG002 - likewise
        payload_bytes: int,  # noqa: ARG002 - likewise
        batch_bytes: int,  # noqa: ARG002 - likewise
    ) -> Company:
        """Make ready to train."""
        from io_bench.shapes.compute import Training  # noqa: PLC0415 - imports torch: a second

        return Training()


COMPANIES: Mapping[str, CompanyEntry] = {entry.name: entry for entry in (Batches(), Compute())}
"""By the names on the command line."""


def company_files(name: str | None, index: int) -> tuple[str, ...]:
    """What a writer has on the target for what runs beside its saves."""
    return COMPANIES[name].files(index) if name else ()


def company_disk_bytes(name: str | None, payload_bytes: Sequence[int]) -> int:
    """The bytes of all writers' files of that kind."""
    return sum(map(COMPANIES[name].disk_bytes, payload_bytes)) if name else 0
