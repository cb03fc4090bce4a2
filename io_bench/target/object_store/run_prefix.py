"""The files of a run as objects under a prefix of their own."""

from __future__ import annotations

import copy
import functools
import io
import math
import time
from collections.abc import Iterable
from typing import BinaryIO, cast

from io_bench.target.object_store.download import ParallelDownload
from io_bench.target.object_store.store import ObjectStore
from io_bench.target.object_store.upload import ParallelUpload
from io_bench.target.run_files import RunFiles
from io_bench.target.transfer import Transfer
from io_bench.timing.observed_file import observed
from io_bench.timing.request_log import RequestLog


class RunPrefix(RunFiles):
    """Objects of this rank under the run's prefix.

    Rank 0 alone lists; who removes what it has created knows the keys.
    """

    def __init__(self, store: ObjectStore, *, url: str, path: str, transfer: Transfer) -> None:
        self._store = store
        self._url = url
        self._path = path
        self._transfer = transfer
        self.log = RequestLog()
        self._prefix = ""
        self._created: set[str] = set()
        self._kept: set[str] = set()
        self._uploads: dict[str, ParallelUpload] = {}

    @property
    def title(self) -> str:
        """The URL."""
        return self._url

    def location(self, name: str) -> str:
        """The URL of an object."""
        return f"{self._url}/{self._in_place(name)}"

    def numbered(self, number: int) -> RunPrefix:
        """The same prefix and the same list of what was created, with a number before every name."""
        view = copy.copy(self)
        view._prefix = f"{number}."
        return view

    def tune(self, transfer: Transfer | None) -> None:
        """From here on, move objects in parts of this size, so many at a time."""
        self._transfer = transfer or self._transfer

    def create(self, name: str) -> BinaryIO:
        """A new object to write to, which is there once it is closed. Raises OSError, also where it exists."""
        if self.exists(name):
            raise FileExistsError(f"the object {self.location(name)} exists already")
        self._created.add(self._in_place(name))
        stream = self._store.open_to_write(self._key(name), self._transfer)
        if isinstance(stream, ParallelUpload):
            self._uploads[self._in_place(name)] = stream
            stream.name, stream.log = name, self.log
            return cast(BinaryIO, stream)
        return observed(cast(BinaryIO, stream), name, self.log)

    def open(self, name: str) -> BinaryIO:
        """An object to read from. Raises OSError."""
        download = ParallelDownload(
            functools.partial(self._got, name, self.log),
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
        self._created.add(self._in_place(new))
        self._store.rename(self._key(old), self._key(new))
        self._created.discard(self._in_place(old))

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
        self._uploads.clear()
        self._uploads.update(unfinished)
        self._remove(self._created)
        if unfinished:
            raise OSError(f"the store does not abort the uploads of {', '.join(unfinished)}")
        self._created.clear()

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects, where they are there. Raises OSError."""
        self._remove(map(self._in_place, names))

    def remove_of_lost(self, names: Iterable[str]) -> None:
        """Remove objects that lost ranks have written or begun. Raises OSError."""
        keys = {self._key(name) for name in names}
        if keys:
            self._store.abort_unfinished(f"{self._path}/", keys)
        self.remove(names)

    def disown(self, name: str) -> None:
        """Leave an object out of `remove_created`: it goes last."""
        self._created.discard(self._in_place(name))

    def keep(self, names: Iterable[str]) -> None:
        """Leave objects where they are, as evidence."""
        self._kept.update(map(self._in_place, names))
        self._created.difference_update(self._kept)

    @property
    def kept(self) -> frozenset[str]:
        """The objects to be left as evidence."""
        return frozenset(self._kept)

    def unmake(self) -> None:
        """Nothing: a prefix is gone with its last object."""

    def close(self) -> None:
        """Nothing is held."""

    def _got(self, name: str, log: RequestLog, start: int, end: int) -> bytes:
        begun = time.perf_counter()
        data = self._store.get(self._key(name), start, end)
        log.moved("read", name, start, len(data), begun=begun)
        return data

    def _remove(self, names_in_place: Iterable[str]) -> None:
        for name in names_in_place:
            self._store.remove(f"{self._path}/{name}")

    def _in_place(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def _key(self, name: str) -> str:
        return f"{self._path}/{self._in_place(name)}"
