"""Target of a measurement: a directory, or a place in an object store, in which runs make places of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from io_bench.target.request_log import RequestLog
from sizing.storage.measurement import CachePolicy


@dataclass(frozen=True, slots=True)
class PartTransfer:
    """Transfer of objects in parts of `part_bytes`, `num_parallel` at a time."""

    part_bytes: int
    num_parallel: int

    def host_bytes(self, num_objects: int) -> int:
        """Memory for the parts of objects written at once, or of one that is read, which holds parts behind it too."""
        num_parts = max(num_objects * (self.num_parallel + 1), 2 * self.num_parallel + 1)
        return num_parts * self.part_bytes


class RunFiles(Protocol):
    """The files of a run by name, of which each rank removes its own. Methods raise OSError.

    `log` hears of every request to the files that are created and opened from then on.
    """

    log: RequestLog

    @property
    def title(self) -> str:
        """Path or URL of the place."""

    def location(self, name: str) -> str:
        """Path or URL of a file, for people."""

    def numbered(self, number: int) -> RunFiles:
        """View of the same place with a number before every name, for one of several checkpoints beside each other.

        What is created there is removed with all that this rank created.
        """

    def tune(self, transfer: PartTransfer | None) -> None:
        """Move files in this way from here on."""

    def create(self, name: str) -> BinaryIO:
        """Create a file to write to, which is this rank's to remove. Raises FileExistsError where there is one."""

    def open(self, name: str) -> BinaryIO:
        """Open a file to read from."""

    def persist(self, file: BinaryIO) -> None:
        """Make what was written to an open file durable, where closing it does not."""

    def sync(self) -> None:
        """Make the names of new files durable."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def rename(self, old: str, new: str) -> None:
        """Give a file that this rank created another name."""

    def num_bytes(self, name: str) -> int:
        """The size of a file."""

    def num_resident_pages(self, name: str) -> int:
        """Count pages of a file in this node's page cache."""

    def drop_from_memory(self, name: str) -> int:
        """Drop a file from this node's memory; return the number of pages that stay."""

    def check_place(self) -> None:
        """Raise OSError where the place is not where it was."""

    def names(self) -> list[str]:
        """Names of the files in the place."""

    def touch(self, name: str) -> None:
        """Make a file look as if changed now."""

    def age_seconds(self, name: str) -> float:
        """Seconds since a file was changed; where there is no such file, since the place was."""

    def remove_created(self) -> None:
        """Remove the files that this rank created."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there."""

    def remove_of_lost(self, names: Iterable[str]) -> None:
        """Remove files that lost ranks have written or begun, where they are there."""

    def disown(self, name: str) -> None:
        """Leave a file out of `remove_created`: it goes last."""

    def keep(self, names: Iterable[str]) -> None:
        """Leave files of any rank where they are, as evidence: nothing removes them until the user does."""

    @property
    def kept(self) -> frozenset[str]:
        """The files to be left as evidence."""

    def unmake(self) -> None:
        """Remove the place, which is empty."""

    def close(self) -> None:
        """Close the place."""


class OwnedNames:
    """The names of files that a rank has created in a place, and of those that stay there as evidence.

    For classes of `RunFiles`. A number before every name tells checkpoints that are beside each other apart.
    """

    def __init__(self) -> None:
        self._prefix = ""
        self._created: set[str] = set()
        self._kept: set[str] = set()

    def disown(self, name: str) -> None:
        """Leave a file out of `remove_created`: it goes last."""
        self._created.discard(self._in_place(name))

    def keep(self, names: Iterable[str]) -> None:
        """Leave files where they are, as evidence."""
        self._kept.update(map(self._in_place, names))
        self._created.difference_update(self._kept)

    @property
    def kept(self) -> frozenset[str]:
        """The files to be left as evidence."""
        return frozenset(self._kept)

    def _in_place(self, name: str) -> str:
        """The name that a file has in the place."""
        return f"{self._prefix}{name}"


RUN_PREFIX = "ckpt-bench-"
"""A run's place in the target is named by this and its id."""


class Target(Protocol):
    """A directory or a bucket in which runs make a place of their own."""

    @property
    def title(self) -> str:
        """Path or URL of the target."""

    @property
    def remark(self) -> str:
        """A sentence about what is remarkable, or nothing."""

    @property
    def cache_policy(self) -> CachePolicy | None:
        """How the page cache is kept out of every engine's figure; None where that is up to the engine."""

    def transfer(
        self, *, block_bytes: int | None, num_parallel: int | None, largest_file_bytes: int
    ) -> PartTransfer | None:
        """How the target moves files, where that is not up to the engine; None leaves a choice to it.

        Raises InvalidInput for what it does not take.
        """

    def check_space(self, needed_bytes: int) -> None:
        """Raise InvalidInput where it has less free than is needed, plus 5 %."""

    def description(self) -> dict[str, str]:
        """The mount, or the endpoint, as the result states it."""

    def run_ids(self) -> list[str]:
        """Ids of the runs that have a place here, by what the places are called. Raises OSError."""

    def run_title(self, run_id: str) -> str:
        """Path or URL of a run's place."""

    def make_run(self, run_id: str) -> RunFiles:
        """Make a place for a run. Raises InvalidInput where that is not allowed, or it is there already."""

    def open_run(self, run_id: str) -> RunFiles:
        """Open the place that another rank has made. Raises OSError."""
