"""The files of a run as objects under a prefix of their own."""

from __future__ import annotations

import functools
import io
import math
import time
from collections.abc import Iterable
from typing import BinaryIO, cast

from io_bench.target.object_store.download import ParallelDownload
from io_bench.target.object_store.store import ObjectStore
from io_bench.target.object_store.upload import ParallelUpload
from io_bench.target.transfer import Transfer


class RunPrefix:
    """Objects of this rank under the run's prefix. Fulfils io_bench.target.run_files.RunFiles.

    Rank 0 alone lists; who removes what it has created knows the keys.
    """

    def __init__(self, store: ObjectStore, *, url: str, path: str, transfer: Transfer) -> None:
        self._store = store
        self._url = url
        self._path = path
        self._transfer = transfer
        self._created: set[str] = set()
        self._uploads: dict[str, ParallelUpload] = {}

    @property
    def title(self) -> str:
        """The URL."""
        return self._url

    def location(self, name: str) -> str:
        """The URL of an object."""
        return f"{self._url}/{name}"

    def tune(self, transfer: Transfer | None) -> None:
        """From here on, move objects in parts of this size, so many at a time."""
        self._transfer = transfer or self._transfer

    def create(self, name: str) -> BinaryIO:
        """A new object to write to, which is there once it is closed. Raises OSError, also where it exists."""
        if self.exists(name):
            raise FileExistsError(f"the object {self.location(name)} exists already")
        self._created.add(name)
        stream = self._store.open_to_write(self._key(name), self._transfer)
        if isinstance(stream, ParallelUpload):
            self._uploads[name] = stream
        return cast(BinaryIO, stream)

    def open(self, name: str) -> BinaryIO:
        """An object to read from. Raises OSError."""
        download = ParallelDownload(
            functools.partial(self._store.get, self._key(name)),
            num_bytes=self.num_bytes(name),
            block_bytes=self._transfer.part_bytes,
            num_parallel=self._transfer.num_parallel,
        )
        return io.BufferedReader(download)

    def persist(self, file: BinaryIO) -> None:
        """Nothing: closing the object makes it durable."""

    def sync(self) -> None:
        """Nothing: an object's key is as durable as the object."""

    def exists(self, name: str) -> bool:
        """Whether there is such an object. Raises OSError."""
        return self._store.exists(self._key(name))

    def rename(self, old: str, new: str) -> None:
        """Give an object of this rank another key. Raises OSError."""
        self._created.add(new)
        self._store.rename(self._key(old), self._key(new))
        self._created.discard(old)

    def num_bytes(self, name: str) -> int:
        """The size of an object. Raises OSError."""
        return self._store.num_bytes(self._key(name))

    def num_resident_pages(self, name: str) -> int:
        """Nothing is in the page cache."""
        return 0

    def drop_from_memory(self, name: str) -> int:
        """Nothing is in the page cache."""
        return 0

    def names(self) -> list[str]:
        """What is under the prefix, listed. Raises OSError."""
        return [path.removeprefix(f"{self._path}/") for path in self._store.paths(self._path)]

    def touch(self, name: str) -> None:
        """Put a small object again. Raises OSError."""
        self._store.put(self._key(name), self._store.get(self._key(name), 0, self.num_bytes(name)))

    def age_seconds(self, name: str) -> float:
        """Seconds since an object was put; infinite where there is none. Raises OSError."""
        try:
            return time.time() - self._store.changed_at(self._key(name))
        except FileNotFoundError:
            return math.inf

    def remove_created(self) -> None:
        """Remove the objects that this rank created, and what was begun of them. Raises OSError."""
        for upload in self._uploads.values():
            upload.abort()
        unfinished = {name: upload for name, upload in self._uploads.items() if upload.upload is not None}
        self._uploads = unfinished
        self.remove(self._created)
        if unfinished:
            raise OSError(f"the store does not abort the uploads of {', '.join(unfinished)}")
        self._created.clear()

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects, where they are there. Raises OSError."""
        for name in names:
            self._store.remove(self._key(name))

    def remove_of_lost(self, names: Iterable[str]) -> None:
        """Remove objects that lost ranks have written or begun. Raises OSError."""
        keys = {self._key(name) for name in names}
        if keys:
            self._store.abort_unfinished(f"{self._path}/", keys)
        self.remove(names)

    def disown(self, name: str) -> None:
        """Leave an object out of `remove_created`: it goes last."""
        self._created.discard(name)

    def unmake(self) -> None:
        """Nothing: a prefix is gone with its last object."""

    def close(self) -> None:
        """Nothing is held."""

    def _key(self, name: str) -> str:
        return f"{self._path}/{name}"
