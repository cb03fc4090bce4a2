"""Reading one object: the blocks that come next are on their way while one is read."""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


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
        """It is there to be read."""
        return True

    def seekable(self) -> bool:
        """Every byte can be reached."""
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
        """Let go of what was fetched; nothing is on its way afterwards."""
        if not self.closed:
            self._threads.shutdown(cancel_futures=True)
            self._blocks.clear()
        super().close()

    def _block(self, index: int) -> bytes:
        reads_on = index == 0 or index - 1 in self._blocks
        ahead = self._num_parallel if reads_on else 0
        last = (self._num_bytes - 1) // self._block_bytes
        for wanted in range(index, min(index + ahead, last) + 1):
            if wanted not in self._blocks:
                self._blocks[wanted] = self._threads.submit(self._fetched, wanted)
        self._blocks.move_to_end(index)
        while len(self._blocks) > 2 * self._num_parallel + 1:
            self._blocks.popitem(last=False)
        return self._blocks[index].result()

    def _fetched(self, index: int) -> bytes:
        start = index * self._block_bytes
        end = min(start + self._block_bytes, self._num_bytes)
        data = self._get(start, end)
        if len(data) != end - start:
            raise OSError(f"{len(data)} bytes received, {end - start} requested")
        return data
