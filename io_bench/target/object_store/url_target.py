"""A place in an object store as a target, and the objects of one run under a prefix there."""

from __future__ import annotations

import copy
import functools
import importlib.util
import io
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

import fsspec

from io_bench.errors import reason_of, unwritable
from io_bench.target.object_store.clouds import AzureStore, GoogleStore, SequentialUpload
from io_bench.target.object_store.store import ObjectStore
from io_bench.target.object_store.transfers import ParallelDownload, ParallelUpload
from io_bench.target.request_log import RequestLog, observe_requests
from io_bench.target.target import RUN_PREFIX, OwnedNames, PartTransfer, RunFiles
from sizing.errors import InvalidInput
from sizing.storage.measurement import CachePolicy
from sizing.units import binary_bytes_text


class RunPrefix(OwnedNames, RunFiles):
    """Objects of this rank under the run's prefix.

    Rank 0 alone lists; who removes what it has created knows the keys.
    """

    def __init__(self, store: ObjectStore, *, url: str, path: str, transfer: PartTransfer) -> None:
        self._store = store
        self._url = url
        self._path = path
        self._transfer = transfer
        self.log = RequestLog()
        super().__init__()
        self._uploads: dict[str, ParallelUpload | SequentialUpload] = {}

    @property
    def title(self) -> str:
        return self._url

    def location(self, name: str) -> str:
        return f"{self._url}/{self._in_place(name)}"

    def numbered(self, number: int) -> RunPrefix:
        """View of the same prefix, with the same list of what was created, and a number before every name."""
        view = copy.copy(self)
        view._prefix = f"{number}."
        return view

    def tune(self, transfer: PartTransfer | None) -> None:
        """Move objects in parts of this size, so many at a time, from here on."""
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
        if isinstance(stream, SequentialUpload):
            self._uploads[self._in_place(name)] = stream
        return observe_requests(cast(BinaryIO, stream), name, self.log)

    def open(self, name: str) -> BinaryIO:
        download = ParallelDownload(
            functools.partial(self._get, name, self.log),
            num_bytes=self.num_bytes(name),
            block_bytes=self._transfer.part_bytes,
            num_parallel=self._transfer.num_parallel,
        )
        return io.BufferedReader(download)

    def persist(self, file: BinaryIO) -> None:
        """Do nothing: closing the object makes it durable."""

    def sync(self) -> None:
        """Do nothing: an object's key is as durable as the object."""

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
        """0: no object is in the page cache."""
        return 0

    def drop_from_memory(self, name: str) -> int:
        """0: no object is in the page cache."""
        return 0

    def check_place(self) -> None:
        """Do nothing: an address leads to one place."""

    def names(self) -> list[str]:
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
        self._remove(map(self._in_place, names))

    def remove_of_lost(self, names: Iterable[str]) -> None:
        """Remove objects that lost ranks have written or begun. Raises OSError."""
        keys = {self._key(name) for name in names}
        if keys:
            self._store.abort_unfinished(f"{self._path}/", keys)
        self.remove(names)

    def unmake(self) -> None:
        """Do nothing: a prefix is gone with its last object."""

    def close(self) -> None:
        """Do nothing: no handle is held."""

    def _get(self, name: str, log: RequestLog, start: int, end: int) -> bytes:
        begun = time.perf_counter()
        data = self._store.get(self._key(name), start, end)
        log.moved("read", name, start, len(data), begun=begun)
        return data

    def _remove(self, names_in_place: Iterable[str]) -> None:
        for name in names_in_place:
            self._store.remove(f"{self._path}/{name}")

    def _key(self, name: str) -> str:
        return f"{self._path}/{self._in_place(name)}"


AnyPrefix = TypeVar("AnyPrefix", bound=RunPrefix)

S3_SCHEMES = ("s3", "s3a")
ENDPOINT_SCHEMES = {"s3+http": "http", "s3+https": "https"}
"""Schemes of S3 at an endpoint that stands in the URL before the bucket, and what that endpoint speaks."""
DEFAULT_PART_BYTES = 8 << 20
"""The AWS CLI's own part size; S3 takes no less than 5 MiB."""
DEFAULT_NUM_PARALLEL = 8
"""Parts that move at a time by default: as many as the direct engine has threads."""
_EXAMPLE = "give a bucket and a prefix: s3://, gs:// or az://bucket/prefix, or s3+https://host:port/bucket/prefix"


@dataclass(frozen=True, slots=True)
class Protocol:
    """Object store that URLs name by a scheme: library, extra, and variables of credentials and of the endpoint."""

    library: str
    extra: str
    credentials: str
    endpoint: str


_S3 = Protocol("s3fs", "s3", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE", "AWS_ENDPOINT_URL")
_GOOGLE = Protocol("gcsfs", "gcs", "GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST")
_AZURE = Protocol(
    "adlfs",
    "azure",
    "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_CONNECTION_STRING",
)
PROTOCOLS = {
    **dict.fromkeys((*S3_SCHEMES, *ENDPOINT_SCHEMES), _S3),
    **dict.fromkeys(("gs", "gcs"), _GOOGLE),
    **dict.fromkeys(("az", "abfs", "abfss"), _AZURE),
}
"""Protocols by the schemes of their URLs; of any other that fsspec knows nothing is said."""


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """A place in an object store, at `path`, which begins with the bucket. Fulfils Target."""

    title: str
    store: ObjectStore
    path: str
    remark: str = ""
    cache_policy: CachePolicy = "object-store"

    @classmethod
    def checked(cls, url: str, *, is_first: bool, field: str = "--target") -> UrlTarget:
        """The target that a URL names. Raises InvalidInput where it cannot be reached.

        Args: `is_first`, for the one rank that asks the store; `field`, what errors call the URL.
        """
        parts = urlsplit(url)
        if "@" in parts.netloc or parts.query:
            # Not shown: what stands there may be secret, and the result keeps the command line.
            protocol = PROTOCOLS.get(parts.scheme)
            remedy = f"set {protocol.credentials}" if protocol else "give them as the protocol's package reads them"
            raise InvalidInput.of(field, "must be a URL without credentials or options", value=None, remedy=remedy)
        has_endpoint = parts.scheme in ENDPOINT_SCHEMES
        path = (parts.path if has_endpoint else f"{parts.netloc}{parts.path}").strip("/")
        if not path or (has_endpoint and not parts.hostname):
            raise InvalidInput.of(field, "must name a bucket", value=url, remedy=_EXAMPLE)
        target = cls(url.rstrip("/"), _store_of(parts, url, field), path)
        if is_first:
            try:
                target.store.check(path)
            except OSError as error:
                rule = f"must be a reachable bucket ({reason_of(error).rstrip('.')})"
                remedy = "check name and credentials"
                if target.store.endpoint:
                    protocol = PROTOCOLS.get(parts.scheme)
                    source = "the endpoint" if has_endpoint or protocol is None else protocol.endpoint
                    remedy = f"check name, credentials and {source} (requests go to {target.store.endpoint})"
                raise InvalidInput.of(field, rule, value=target.title, remedy=remedy) from error
        return target

    def transfer(
        self, *, block_bytes: int | None = None, num_parallel: int | None = None, largest_file_bytes: int = 0
    ) -> PartTransfer:
        """Objects go in parts of `block_bytes`, `num_parallel` of them at a time.

        Raises InvalidInput for parts that the store does not take.
        """
        part_bytes = block_bytes or DEFAULT_PART_BYTES
        min_bytes = max(self.store.min_part_bytes, -(-largest_file_bytes // self.store.max_parts))
        if part_bytes < min_bytes:
            objects = f"objects of {binary_bytes_text(largest_file_bytes)}"
            rule = f"must be at least {binary_bytes_text(min_bytes)} for {objects}"
            raise InvalidInput.of("--block-size", rule, value=binary_bytes_text(part_bytes), remedy="increase it")
        return PartTransfer(part_bytes, num_parallel or DEFAULT_NUM_PARALLEL)

    def check_space(self, needed_bytes: int) -> None:
        """Do nothing: object stores do not tell how much is free."""

    def description(self) -> dict[str, str]:
        """The protocol, and where the requests go."""
        return {
            "type": urlsplit(self.title).scheme.partition("+")[0],
            "endpoint": self.store.endpoint,
            "path": self.title,
        }

    def run_ids(self) -> list[str]:
        """The runs that have objects here, by what their prefixes are called. Raises OSError.

        Some stores keep folders after the last object in them has gone.
        """
        names = [name for name in self.store.folders(self.path) if name.startswith(RUN_PREFIX)]
        return [name.removeprefix(RUN_PREFIX) for name in names if self.store.paths(f"{self.path}/{name}")]

    def run_title(self, run_id: str) -> str:
        """The URL of a run's prefix."""
        return f"{self.title}/{RUN_PREFIX}{run_id}"

    def make_run(self, run_id: str) -> RunPrefix:
        """Make a prefix for a run. Raises InvalidInput where there are objects under it already."""
        files = self.open_run(run_id)
        try:
            names = files.names()
        except OSError as error:
            raise unwritable(self.title, reason_of(error)) from error
        if names:
            raise unwritable(files.title, "it exists already, from another run")
        return files

    def open_run(self, run_id: str) -> RunPrefix:
        """The prefix that another rank has made."""
        return self.open_run_as(RunPrefix, run_id)

    def open_run_as(self, kind: type[AnyPrefix], run_id: str) -> AnyPrefix:
        """The run's prefix, by a class of prefixes."""
        path = f"{self.path}/{RUN_PREFIX}{run_id}"
        return kind(self.store, url=self.run_title(run_id), path=path, transfer=self.transfer())


def _open_cloud(protocol: Protocol, url: str, field: str) -> ObjectStore:
    """Open the store of Google or Azure. Raises InvalidInput where its library finds no credentials."""
    try:
        return GoogleStore() if protocol is _GOOGLE else AzureStore()
    except OSError as error:
        rule = f"must be a store whose credentials are found ({reason_of(error).rstrip('.')})"
        raise InvalidInput.of(field, rule, value=url, remedy=f"set {protocol.credentials}") from error


def _store_of(parts: SplitResult, url: str, field: str) -> ObjectStore:
    known = PROTOCOLS.get(parts.scheme)
    if known is not None and importlib.util.find_spec(known.library) is None:
        rule, remedy = (
            f"needs {known.library}, which is not installed",
            f"pip install 'checkpoint-sizing[{known.extra}]'",
        )
        raise InvalidInput.of(field, rule, value=url, remedy=remedy)
    if known in (_GOOGLE, _AZURE):
        return _open_cloud(known, url, field)
    if known is _S3:
        from io_bench.target.object_store.s3 import S3Store  # noqa: PLC0415 - an extra

        protocol = ENDPOINT_SCHEMES.get(parts.scheme)
        return S3Store(f"{protocol}://{parts.netloc}" if protocol else None)
    try:
        return ObjectStore(fsspec.filesystem(parts.scheme))
    except (ValueError, ImportError) as error:
        rule = f"must be a path or a URL of an installed protocol ({str(error).rstrip('.')})"
        raise InvalidInput.of(
            field, rule, value=url, remedy="install the protocol's package, or give a path or s3://"
        ) from error
