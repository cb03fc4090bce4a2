"""A target that is a URL."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

import fsspec

from io_bench.errors import reason_of, unwritable
from io_bench.target.object_store.run_prefix import RunPrefix
from io_bench.target.object_store.store import ObjectStore
from io_bench.target.target import RUN_PREFIX
from io_bench.target.transfer import Transfer
from sizing.errors import InvalidInput
from sizing.storage.measurement import CachePolicy
from sizing.units import binary_bytes_text

AnyPrefix = TypeVar("AnyPrefix", bound=RunPrefix)

S3_SCHEMES = ("s3", "s3a")
ENDPOINT_SCHEMES = {"s3+http": "http", "s3+https": "https"}
"""Of S3 at an endpoint that stands in the URL before the bucket, and what that endpoint speaks."""
DEFAULT_PART_BYTES = 8 << 20
"""The AWS CLI's own part size; S3 takes no less than 5 MiB."""
DEFAULT_NUM_PARALLEL = 8
"""As many as the direct engine has threads, so that both have as many requests in flight."""
_EXAMPLE = "give a bucket and a prefix: s3://bucket/prefix, or s3+https://host:port/bucket/prefix"


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
            remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            raise InvalidInput.of(field, "must be a URL without credentials or options", value=None, remedy=remedy)
        has_endpoint = parts.scheme in ENDPOINT_SCHEMES
        path = (parts.path if has_endpoint else f"{parts.netloc}{parts.path}").strip("/")
        if not path or (has_endpoint and not parts.hostname):
            raise InvalidInput.of(field, "must name a bucket", value=url, remedy=_EXAMPLE)
        target = cls(url.rstrip("/"), _store_of(parts, url, field), path)
        if is_first:
            target._reach(field)
        return target

    def transfer(
        self, *, block_bytes: int | None = None, num_parallel: int | None = None, largest_file_bytes: int = 0
    ) -> Transfer:
        """Objects go in parts of `block_bytes`, `num_parallel` of them at a time.

        Raises InvalidInput for parts that the store does not take.
        """
        part_bytes = block_bytes or DEFAULT_PART_BYTES
        min_bytes = max(self.store.min_part_bytes, -(-largest_file_bytes // self.store.max_parts))
        if part_bytes < min_bytes:
            objects = f"objects of {binary_bytes_text(largest_file_bytes)}"
            rule = f"must be at least {binary_bytes_text(min_bytes)} for {objects}"
            raise InvalidInput.of("--block-size", rule, value=binary_bytes_text(part_bytes), remedy="increase it")
        return Transfer(part_bytes, num_parallel or DEFAULT_NUM_PARALLEL)

    def check_space(self, needed_bytes: int) -> None:
        """Nothing: object stores do not tell how much is free."""

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

    def made(self, run_id: str) -> RunPrefix:
        """A new prefix. Raises InvalidInput where there are objects under it already."""
        files = self.seen(run_id)
        try:
            found = files.names()
        except OSError as error:
            raise unwritable(self.title, reason_of(error)) from error
        if found:
            raise unwritable(files.title, "it exists already, from another run")
        return files

    def seen(self, run_id: str) -> RunPrefix:
        """The prefix that another rank has made."""
        return self.seen_as(RunPrefix, run_id)

    def seen_as(self, kind: type[AnyPrefix], run_id: str) -> AnyPrefix:
        """The same, by a class of prefixes."""
        path = f"{self.path}/{RUN_PREFIX}{run_id}"
        return kind(self.store, url=self.run_title(run_id), path=path, transfer=self.transfer())

    def _reach(self, field: str) -> None:
        try:
            self.store.check(self.path)
        except OSError as error:
            rule = f"must be a reachable bucket ({reason_of(error).rstrip('.')})"
            remedy = "check name and credentials"
            if self.store.endpoint:
                given = "the endpoint" if urlsplit(self.title).scheme in ENDPOINT_SCHEMES else "AWS_ENDPOINT_URL"
                remedy = f"check name, credentials and {given} (requests go to {self.store.endpoint})"
            raise InvalidInput.of(field, rule, value=self.title, remedy=remedy) from error


def _store_of(parts: SplitResult, url: str, field: str) -> ObjectStore:
    if parts.scheme in (*S3_SCHEMES, *ENDPOINT_SCHEMES):
        if importlib.util.find_spec("s3fs") is None:
            rule, remedy = "needs s3fs, which is not installed", "pip install 'checkpoint-sizing[s3]'"
            raise InvalidInput.of(field, rule, value=url, remedy=remedy)
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
