"""Object stores as a run needs them: a few verbs on paths, through fsspec."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol, cast

from fsspec import AbstractFileSystem

from io_bench.target.target import PartTransfer


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing shows it; `changed_at` in seconds since 1970."""

    path: str
    num_bytes: int
    changed_at: float


class ObjectStore:
    """A file system that fsspec reaches by URL. Paths begin with the bucket; errors are OSErrors."""

    min_part_bytes = 1
    max_parts = sys.maxsize

    def __init__(self, file_system: AbstractFileSystem) -> None:
        self._fs: Any = file_system

    @property
    def endpoint(self) -> str:
        """Where the requests go, where that is known."""
        return ""

    def check(self, path: str) -> None:
        """Raise OSError where there is no such bucket, or it may not be listed."""
        bucket = path.partition("/")[0]
        if bucket and not self._fs.exists(bucket):
            raise FileNotFoundError(f"{bucket} does not exist")

    def put(self, path: str, data: bytes) -> None:
        """Write a small object in one request."""
        self._fs.pipe_file(path, data)

    def get(self, path: str, start: int, end: int) -> bytes:
        """The bytes from `start` to before `end`."""
        return cast(bytes, self._fs.cat_file(path, start=start, end=end))

    def num_bytes(self, path: str) -> int:
        """The size of an object. Raises FileNotFoundError where there is none."""
        return int(self._fs.info(path)["size"])

    def changed_at(self, path: str) -> float:
        """When an object was put, in seconds since 1970. Raises FileNotFoundError where there is none."""
        return float(self._fs.modified(path).timestamp())

    def exists(self, path: str) -> bool:
        """Whether there is an object of this name."""
        try:
            self.num_bytes(path)
        except FileNotFoundError:
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        """Give an object another name, for which most stores copy it."""
        self._fs.mv(old, new)

    def remove(self, path: str) -> None:
        """Remove an object where it is there."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(path)

    def paths(self, prefix: str) -> list[str]:
        """Every object below a prefix, which is listed for it."""
        try:
            paths = self._fs.find(prefix)
        except FileNotFoundError:
            return []
        # Where nothing is below it, some stores show the prefix itself.
        return sorted(path for path in map(_plain, paths) if path.startswith(f"{prefix}/"))

    def objects(self, prefix: str) -> list[StoredObject]:
        """Every object below a prefix with its size and the time when it was put."""
        try:
            entries: dict[str, Mapping[str, Any]] = self._fs.find(prefix, detail=True)
        except FileNotFoundError:
            return []
        return [
            StoredObject(_plain(path), int(entry["size"]), self._changed_at(entry))
            for path, entry in sorted(entries.items())
            if _plain(path).startswith(f"{prefix}/")
        ]

    def folders(self, prefix: str) -> list[str]:
        """The names between a prefix and the next slash, without what lies deeper."""
        try:
            entries = self._fs.ls(prefix, detail=True)
        except FileNotFoundError:
            return []
        below = (_plain(str(each["name"]).rstrip("/")) for each in entries if each["type"] == "directory")
        return sorted(path.removeprefix(f"{prefix}/") for path in below if path.startswith(f"{prefix}/"))

    def open_to_write(self, path: str, transfer: PartTransfer) -> BinaryIO | io.RawIOBase:
        """A stream to a new object, which fsspec writes in parts, one after another."""
        return cast(BinaryIO, self._fs.open(path, "wb", block_size=transfer.part_bytes))

    def abort_unfinished(self, prefix: str, paths: Collection[str]) -> None:
        """Forget what was begun of some objects below a prefix, which is listed for it."""

    def _changed_at(self, entry: Mapping[str, Any]) -> float:
        """Read off a listing when an object was put: only the store itself knows how its listings say it."""
        return self.changed_at(str(entry["name"]))


def _plain(path: str) -> str:
    """Give a path as it was given: some file systems of fsspec, that in memory too, list theirs from a root."""
    return path.removeprefix("/")


class MultipartStore(Protocol):
    """A store that takes the parts of an object in any order, and several at a time."""

    def put(self, path: str, data: bytes) -> None:
        """Write a small object in one request."""

    def begin_upload(self, path: str) -> str:
        """The identity of an upload that has begun."""

    def put_part(self, path: str, upload: str, number: int, data: bytes | bytearray) -> str:
        """Send part `number`, from 1; the tag that the store gives it."""

    def complete_upload(self, path: str, upload: str, tags: list[str]) -> None:
        """Make the object out of its parts; returns once it is durable."""

    def abort_upload(self, path: str, upload: str) -> None:
        """Forget an upload and its parts, where the store still knows it."""
