"""Writing and reading one object: parts are on their way while the next is filled, or while one is read."""

from __future__ import annotations

import io
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from io_bench import interruption
from io_bench.target.object_store.store import MultipartStore
from io_bench.target.request_log import RequestLog


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
        """True."""
        return True

    def tell(self) -> int:
        """Bytes taken so far."""
        return self._sent + self._filled

    def write(self, data: Any, /) -> int:
        """Take all of `data`; it may be changed once this returns. Raises OSError."""
        view = memoryview(data).cast("B")
        num_taken = 0
        while num_taken < len(view):
            if self._filled == self._part_bytes:
                self._send(self._part)
                self._part, self._filled = self._next_buffer(), 0
            count = min(self._part_bytes - self._filled, len(view) - num_taken)
            self._part[self._filled : self._filled + count] = view[num_taken : num_taken + count]
            self._filled += count
            num_taken += count
        return num_taken

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
            interruption.fail_requests()
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
        """Wait for a buffer to fill. Raises the error of a part that could not be sent."""
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


class ParallelDownload(io.RawIOBase):
    """A seekable stream from an object.

    Who reads on from one block to the next has `num_parallel` blocks fetched ahead; a jump fetches one. At most
    twice that many blocks are held. Wrap it into io.BufferedReader, whose reads are never short.
    """

    def __init__(
        self, get: Callable[[int, int], bytes], *, num_bytes: int, block_bytes: int, num_parallel: int
    ) -> None:
        self._get = get
        self._num_bytes = num_bytes
        self._block_bytes = block_bytes
        self._num_parallel = num_parallel
        self._position = 0
        self._blocks: OrderedDict[int, Future[bytes]] = OrderedDict()
        self._threads = ThreadPoolExecutor(num_parallel, thread_name_prefix="download")

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True: every byte can be reached."""
        return True

    def tell(self) -> int:
        """The position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to a position, which it returns."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._num_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Fill the buffer as far as the current block reaches; the count of bytes. Raises OSError."""
        if self._position >= self._num_bytes:
            return 0
        index, start = divmod(self._position, self._block_bytes)
        block = self._block(index)
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(block) - start)
        target[:count] = memoryview(block)[start : start + count]
        self._position += count
        return count

    def close(self) -> None:
        """Drop what was fetched; nothing is on its way afterwards."""
        if not self.closed:
            self._threads.shutdown(cancel_futures=True)
            self._blocks.clear()
        super().close()

    def _block(self, index: int) -> bytes:
        reads_on = index == 0 or index - 1 in self._blocks
        ahead = self._num_parallel if reads_on else 0
        last = (self._num_bytes - 1) // self._block_bytes
        for block in range(index, min(index + ahead, last) + 1):
            if block not in self._blocks:
                self._blocks[block] = self._threads.submit(self._fetch, block)
        self._blocks.move_to_end(index)
        while len(self._blocks) > 2 * self._num_parallel + 1:
            self._blocks.popitem(last=False)
        return self._blocks[index].result()

    def _fetch(self, index: int) -> bytes:
        start = index * self._block_bytes
        end = min(start + self._block_bytes, self._num_bytes)
        interruption.fail_requests()
        data = self._get(start, end)
        if len(data) != end - start:
            raise OSError(f"{len(data)} bytes received, {end - start} requested")
        return data
