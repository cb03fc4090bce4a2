"""DCP's own writer and reader, on streams to and from the files of a run."""

from __future__ import annotations

import time
from typing import Any

from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from io_bench.engines.dcp_streams import FileStreams, Streams
from io_bench.errors import RunFailed

METADATA = ".metadata"


class Writer(FileSystemWriter):
    """DCP's writer, with `num_threads` files per rank written by as many threads."""

    def __init__(self, streams: Streams, *, num_threads: int) -> None:
        self.streams = streams
        self.plan_seconds = self.commit_seconds = 0.0
        super().__init__(streams.title, thread_count=num_threads, sync_files=False, overwrite=False)
        self.fs = self.streams  # type: ignore[assignment]  # as DCP's own writer to other file systems does

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """What DCP calls first, with more where it finds a parameter of that name: from here on the ranks plan."""
        self._planning_began = time.perf_counter()
        super().set_up_storage_writer(is_coordinator, *args, **kwargs)

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's part. Raises the error of any thread."""
        self.plan_seconds = time.perf_counter() - self._planning_began
        written = super().write_data(plan, planner)
        self.streams.raise_failure()
        if len(written.value()) != len(plan.items):
            raise RunFailed(f"DCP wrote {len(written.value())} of {len(plan.items)} tensors and gave no reason.")
        return written

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write `.metadata`, on rank 0. Raises OSError."""
        started = time.perf_counter()
        super().finish(metadata, results)
        self.commit_seconds += time.perf_counter() - started


class Reader(FileSystemReader):
    """DCP's reader."""

    def __init__(self, streams: FileStreams) -> None:
        super().__init__(streams.title)
        self.fs = streams  # type: ignore[assignment]
