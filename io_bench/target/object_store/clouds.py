"""Google Cloud Storage and Azure Blob Storage, through gcsfs and adlfs; their parts go one after another.

Credentials, project and endpoint are those of the libraries' own configuration. gcsfs: Application Default Credentials
(GOOGLE_APPLICATION_CREDENTIALS, gcloud, the metadata server), GOOGLE_CLOUD_PROJECT, STORAGE_EMULATOR_HOST. adlfs:
AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN
or the identity that azure-identity finds (AZURE_STORAGE_ANON=false).
"""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from fsspec import AbstractFileSystem

from io_bench.target.object_store.store import ObjectStore
from io_bench.target.target import PartTransfer

Failures = tuple[type[Exception], ...]

_OF_BOTH: Failures = (TimeoutError, ValueError, RuntimeError)
"""What both libraries raise beside errors of their own: timeouts, refused answers and lost checksums."""


class CloudStore(ObjectStore):
    """Containers of one account or project. Listings are never kept: other ranks change what they show."""

    def __init__(self, file_system: AbstractFileSystem, *, failures: Failures, changed_field: str) -> None:
        """Args: `failures` that the library raises beside OSErrors; `changed_field` of its listings, a time."""
        super().__init__(file_system)
        self._fs = _Translating(file_system, failures)
        self._failures, self._changed_field = failures, changed_field

    def open_to_write(self, path: str, transfer: PartTransfer) -> SequentialUpload:
        """A stream to a new object, which goes in parts of the transfer's size, one after another."""
        return SequentialUpload(super().open_to_write(path, transfer), self._failures)

    def _changed_at(self, entry: Mapping[str, Any]) -> float:
        return float(entry[self._changed_field].timestamp())


class GoogleStore(CloudStore):
    """Buckets of Google Cloud Storage: an object is one resumable upload, in parts of a multiple of 256 KiB."""

    min_part_bytes = 256 << 10

    def __init__(self) -> None:
        import gcsfs  # noqa: PLC0415 - an extra
        from aiohttp import ClientError  # noqa: PLC0415 - an extra
        from gcsfs.retry import HttpError  # noqa: PLC0415 - an extra
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - an extra
        from requests import RequestException  # noqa: PLC0415 - an extra

        failures: Failures = (HttpError, ClientError, GoogleAuthError, RequestException, *_OF_BOTH)
        with _as_os_errors(failures):
            self._google = gcsfs.GCSFileSystem(use_listings_cache=False, skip_instance_cache=True)
        super().__init__(self._google, failures=failures, changed_field="mtime")

    @property
    def endpoint(self) -> str:
        """Address of the server that requests go to, without their path."""
        return str(self._google.base).partition("/storage/")[0]


class AzureStore(CloudStore):
    """Containers of an account of Azure Blob Storage: an object is a block blob, of one block for each part."""

    # A service limit: 50,000 blocks a blob (Microsoft, "Understanding block blobs").
    max_parts = 50_000

    def __init__(self) -> None:
        import adlfs  # noqa: PLC0415 - an extra
        from azure.core.exceptions import AzureError  # noqa: PLC0415 - an extra

        failures: Failures = (AzureError, *_OF_BOTH)
        with _as_os_errors(failures):
            self._azure = adlfs.AzureBlobFileSystem(use_listings_cache=False, skip_instance_cache=True)
        super().__init__(self._azure, failures=failures, changed_field="last_modified")

    @property
    def endpoint(self) -> str:
        """Address of the server that requests go to, without their path."""
        return str(self._azure.service_client.primary_endpoint).partition("?")[0]


class SequentialUpload(io.RawIOBase):
    """Stream to an object that comes into being when it is closed, never where it is aborted or its block fails."""

    upload: str | None = None
    """None: what an abort leaves, parts that no object has, the store forgets by itself."""

    def __init__(self, file: Any, failures: Failures) -> None:
        self._file, self._failures = file, failures

    def writable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """Count the bytes that were written."""
        return int(self._file.tell())

    def write(self, data: Any, /) -> int:
        """Take bytes; a part that they fill is sent first. Raises OSError."""
        with _as_os_errors(self._failures):
            return int(self._file.write(data))

    def close(self) -> None:
        """Send the rest and complete the object. Raises OSError."""
        if self.closed:
            return
        try:
            with _as_os_errors(self._failures):
                self._file.close()
        finally:
            super().close()

    def abort(self) -> None:
        """Forget what was sent. fsspec would complete the object where its file is dropped without being closed."""
        if not self.closed:
            self._file.closed = True
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Complete the object; abort it where the block failed."""
        if error is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        """Abort an object that nobody completed, which the base class would complete."""
        self.abort()


class _Translating:
    """File system whose methods raise OSErrors in place of errors of its library."""

    def __init__(self, inner: AbstractFileSystem, failures: Failures) -> None:
        self._inner, self._failures = inner, failures

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            with _as_os_errors(self._failures):
                return method(*arguments, **options)

        return call


@contextmanager
def _as_os_errors(failures: Failures) -> Iterator[None]:
    """Turn errors of a library into OSErrors, without the query of a URL, which may hold a signature."""
    try:
        yield
    except OSError:
        raise
    except failures as error:
        text = re.sub(r'\?[^"\s]*', "", str(error).partition("\n")[0] or type(error).__name__)
        raise OSError(errno.EIO, text) from error
