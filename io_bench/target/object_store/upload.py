"""Writing one object: parts are on their way while the next is filled."""

from __future__ import annotations

import io
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from io_bench.target.object_store.store import MultipartStore
from io_bench.timing.request_log import RequestLog


class ParallelUpload(io.RawIOBase):
    """A stream to an object that comes into being when it is closed, and never where an error leaves its block.

    It holds `num_parallel` parts that are being sent, and one that is being filled. A part's error is raised by
    the next write, or by close. `log` hears of every part, under `name`.
    """

    def __init__(self, store: MultipartStore, path: str, *, part_bytes: int, num_parallel: int) -> None:
        self._store = store
        self._path = path
        self._part_bytes = part_bytes
        self._buffers_to_make = num_parallel
        self._threads = ThreadPoolExecutor(num_parallel, thread_name_prefix="upload")
        self._free: SimpleQueue[bytearray] = SimpleQueue()
        self._part = bytearray(part_bytes)
        self._filled = 0
        self._sent = 0
        self._tags: list[Future[str]] = []
        self._failure: BaseException | None = None
        self._lock = threading.RLock()
        self.name, self.log = path, RequestLog()
        self.upload: str | None = None
        """The identity of the upload for as long as the store may hold parts of it."""

    def writable(self) -> bool:
        """It is there to be written to."""
        return True

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._sent + self._filled

    def write(self, data: Any, /) -> int:
        """Take all of `data`; it may be changed once this returns. Raises OSError."""
        view = memoryview(data).cast("B")
        taken = 0
        while taken < len(view):
            if self._filled == self._part_bytes:
                self._send(self._part)
                self._part, self._filled = self._next_buffer(), 0
            count = min(self._part_bytes - self._filled, len(view) - taken)
            self._part[self._filled : self._filled + count] = view[taken : taken + count]
            self._filled += count
            taken += count
        return taken

    def close(self) -> None:
        """Send the rest and complete the object. Raises OSError, and there is no object then."""
        with self._lock:
            if self.closed:
                return
            try:
                with self.log.step("close", self.name, self._sent + self._filled):
                    self._complete()
            except BaseException:
                self.abort()
                raise
            self._end()

    def abort(self) -> None:
        """Give up the object, from any thread; where the store does not answer, `upload` stays set."""
        with self._lock:
            self._end()
            if self.upload is not None:
                try:
                    self._store.abort_upload(self._path, self.upload)
                except OSError:
                    return
                self.upload = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Complete the object; abort it where the block failed."""
        if error is None:
            self.close()
        else:
            self.abort()

    def _send(self, part: bytearray | bytes) -> None:
        with self._lock:
            if self.closed:
                raise OSError(f"the upload of {self._path} was aborted")
            if self.upload is None:
                self.upload = self._store.begin_upload(self._path)
            self._tags.append(self._threads.submit(self._put_part, self.upload, len(self._tags) + 1, part))
        self._sent += len(part)

    def _put_part(self, upload: str, number: int, part: bytearray | bytes) -> str:
        begun = time.perf_counter()
        try:
            tag = self._store.put_part(self._path, upload, number, part)
            self.log.moved("write", self.name, (number - 1) * self._part_bytes, len(part), begun=begun)
            return tag
        except BaseException as error:
            self._failure = error
            raise
        finally:
            if isinstance(part, bytearray):
                self._free.put(part)

    def _next_buffer(self) -> bytearray:
        """A buffer to fill, as soon as there is one. Raises the error of a part that could not be sent."""
        if self._buffers_to_make:
            self._buffers_to_make -= 1
            return bytearray(self._part_bytes)
        buffer = self._free.get()
        if self._failure is not None:
            raise self._failure
        return buffer

    def _complete(self) -> None:
        rest = bytes(memoryview(self._part)[: self._filled])
        if self.upload is None:
            begun = time.perf_counter()
            self._store.put(self._path, rest)
            self.log.moved("write", self.name, 0, len(rest), begun=begun)
            return
        if rest:
            self._send(rest)
            self._filled = 0
        self._store.complete_upload(self._path, self.upload, [tag.result() for tag in self._tags])
        self.upload = None

    def _end(self) -> None:
        self._threads.shutdown(cancel_futures=True)
        self._part, self._free = bytearray(), SimpleQueue()
        super().close()
