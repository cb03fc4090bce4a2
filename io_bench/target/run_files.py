"""The files of one run, by name, in a place of their own inside the target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO, Protocol

from io_bench.target.transfer import Transfer
from io_bench.timing.request_log import RequestLog


class RunFiles(Protocol):
    """Files by name, of which each rank removes its own. Methods raise OSError.

    `log` hears of every request to the files that are created and opened from then on.
    """

    log: RequestLog

    @property
    def title(self) -> str:
        """Where they are: a path or a URL."""

    def location(self, name: str) -> str:
        """Where one of them is, for people."""

    def numbered(self, number: int) -> RunFiles:
        """The same place with a number before every name: for one of several checkpoints beside each other.

        What is created there is removed with all that this rank created.
        """

    def tune(self, transfer: Transfer | None) -> None:
        """From here on, move files in this way."""

    def create(self, name: str) -> BinaryIO:
        """A new file to write to, which is this rank's to remove. Raises FileExistsError where there is one."""

    def open(self, name: str) -> BinaryIO:
        """A file to read from."""

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
        """Pages of a file in this node's page cache."""

    def drop_from_memory(self, name: str) -> int:
        """Pages of a file that this node keeps in memory although asked not to."""

    def names(self) -> list[str]:
        """What is there."""

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
        """Let go of the place."""
