"""S3 and what speaks its protocol, through s3fs.

Credentials, region, endpoint and retries are those of the standard AWS configuration: AWS_ACCESS_KEY_ID,
AWS_SECRET_ACCESS_KEY, AWS_PROFILE, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL, ~/.aws and instance roles. A URL may name its
endpoint itself.
"""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import s3fs
from aiohttp import ClientError as ConnectionFailed
from botocore.exceptions import BotoCoreError

from io_bench.target.object_store.store import ObjectStore, StoredObject
from io_bench.target.object_store.transfers import ParallelUpload
from io_bench.target.target import PartTransfer

MAX_CONNECTIONS = 64
"""Max connections of one rank: parts of several files at once. A guess; botocore's 10 would hold back eight parts
beside other requests."""
# botocore retries by itself, four times unless AWS_MAX_ATTEMPTS says otherwise.
_ATTEMPTS = 1
_SECONDS_TO_CONNECT = 5
"""Max time to connect. In a data centre a connection takes milliseconds; with botocore's 60 an unreachable store would
look like a hang."""
_SECONDS_TO_ANSWER = 30
"""Half of botocore's 60: a store that has not begun to answer by then is a failed measurement."""


class S3Store(ObjectStore):
    """Buckets of one endpoint, with parts uploaded in any order."""

    min_part_bytes = 5 << 20
    max_parts = 10_000

    def __init__(self, endpoint: str | None = None) -> None:
        """Args: `endpoint`, a URL, where it is not that of the AWS configuration."""
        # asyncio logs, traceback and all, what happens to tasks that nobody awaits any more (Python, "Developing with
        # asyncio": never-retrieved exceptions). What our own requests raise does not come to us by way of this log.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self._s3 = s3fs.S3FileSystem(
            use_listings_cache=False,
            skip_instance_cache=True,
            endpoint_url=endpoint,
            config_kwargs={
                "max_pool_connections": MAX_CONNECTIONS,
                "connect_timeout": _SECONDS_TO_CONNECT,
                "read_timeout": _SECONDS_TO_ANSWER,
            },
        )
        self._s3.retries = _ATTEMPTS
        super().__init__(self._s3)

    @property
    def endpoint(self) -> str:
        """Where the requests go."""
        return str(self._s3.s3.meta.endpoint_url)

    def check(self, path: str) -> None:
        bucket, key = _split(path)
        self._call("list_objects_v2", Bucket=bucket, Prefix=key, MaxKeys=1)

    def put(self, path: str, data: bytes) -> None:
        bucket, key = _split(path)
        self._call("put_object", Bucket=bucket, Key=key, Body=io.BytesIO(data))

    def get(self, path: str, start: int, end: int) -> bytes:
        with _as_os_errors():
            return super().get(path, start, end)

    def num_bytes(self, path: str) -> int:
        bucket, key = _split(path)
        return int(self._call("head_object", Bucket=bucket, Key=key)["ContentLength"])

    def changed_at(self, path: str) -> float:
        bucket, key = _split(path)
        return float(self._call("head_object", Bucket=bucket, Key=key)["LastModified"].timestamp())

    def rename(self, old: str, new: str) -> None:
        """Copy within the store and remove the old one."""
        with _as_os_errors():
            super().rename(old, new)

    def remove(self, path: str) -> None:
        bucket, key = _split(path)
        with contextlib.suppress(FileNotFoundError):
            self._call("delete_object", Bucket=bucket, Key=key)

    def paths(self, prefix: str) -> list[str]:
        with _as_os_errors():
            return super().paths(prefix)

    def objects(self, prefix: str) -> list[StoredObject]:
        with _as_os_errors():
            return super().objects(prefix)

    def folders(self, prefix: str) -> list[str]:
        with _as_os_errors():
            return super().folders(prefix)

    def open_to_write(self, path: str, transfer: PartTransfer) -> ParallelUpload:
        """A stream to a new object, in parts that go in parallel."""
        return ParallelUpload(self, path, part_bytes=transfer.part_bytes, num_parallel=transfer.num_parallel)

    def abort_unfinished(self, prefix: str, paths: Collection[str]) -> None:
        for path, upload in self.unfinished_uploads(prefix):
            if path in paths:
                self.abort_upload(path, upload)

    def begin_upload(self, path: str) -> str:
        """The identity of an upload that has begun."""
        bucket, key = _split(path)
        return str(self._call("create_multipart_upload", Bucket=bucket, Key=key)["UploadId"])

    def put_part(self, path: str, upload: str, number: int, data: bytes | bytearray) -> str:
        """Send part `number`, from 1; the tag that the store gives it."""
        bucket, key = _split(path)
        answer = self._call(
            "upload_part", Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=io.BytesIO(data)
        )
        return str(answer["ETag"])

    def complete_upload(self, path: str, upload: str, tags: list[str]) -> None:
        """Make the object out of its parts; returns once it is durable."""
        bucket, key = _split(path)
        parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        self._call(
            "complete_multipart_upload", Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts}
        )

    def abort_upload(self, path: str, upload: str) -> None:
        """Forget an upload and its parts, where the store still knows it."""
        bucket, key = _split(path)
        with contextlib.suppress(FileNotFoundError):
            self._call("abort_multipart_upload", Bucket=bucket, Key=key, UploadId=upload)

    def unfinished_uploads(self, prefix: str) -> list[tuple[str, str]]:
        """Path and identity of every upload below a prefix that was neither completed nor aborted."""
        bucket, key = _split(prefix)
        uploads: list[tuple[str, str]] = []
        page: dict[str, Any] = {"IsTruncated": True}
        while page.get("IsTruncated"):
            markers = {
                marker: page[f"Next{marker}"] for marker in ("KeyMarker", "UploadIdMarker") if page.get(f"Next{marker}")
            }
            page = self._call("list_multipart_uploads", Bucket=bucket, Prefix=key, **markers)
            uploads += [(f"{bucket}/{upload['Key']}", upload["UploadId"]) for upload in page.get("Uploads", [])]
        return uploads

    def _changed_at(self, entry: Mapping[str, Any]) -> float:
        return float(entry["LastModified"].timestamp())

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        with _as_os_errors():
            return dict(self._s3.call_s3(operation, **arguments))


def _split(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    return bucket, key


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Turn errors from before the store could answer into OSError; its answers s3fs has translated."""
    try:
        yield
    except (BotoCoreError, ConnectionFailed) as error:
        without_query = re.sub(r'\?[^"\s]*', "", str(error) or type(error).__name__)
        raise OSError(errno.EIO, without_query) from error
