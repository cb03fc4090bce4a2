"""DCP's own writer and reader, on streams that they use as their file system: the files of a run, or a null sink."""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from io_bench.engines.phases import Phases
from io_bench.engines.torch_files import CallbackFile
from io_bench.errors import RunFailed
from io_bench.target.target import RunFiles


class Streams(FileSystemBase):
    """Streams that DCP writes to, into files that take everything: a null sink. Paths are names of files.

    DCP's additional threads print their errors and forget them, so the first is kept in `failure`. DCP fsyncs
    `.metadata` while it is still in Python's buffer, so every file is made durable here.
    """

    title = os.devnull

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.phases: list[Phases] = []
        self._lock = threading.Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Refuse to create files from here on: the run removes what is there."""
        with self._lock:
            self._is_stopped = True

    def raise_failure(self) -> None:
        """Raise the first error of any thread."""
        if self.failure is not None:
            raise self.failure

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase, None, None]:
        """Open a stream to write to, durable at the end of the block unless there is a failure."""
        phases = Phases()
        self.phases.append(phases)
        with phases.phase("create"), self._lock:
            try:
                if self._is_stopped:
                    raise OSError(f"{path} comes too late: the run is over")
                file = self.create(str(path))
            except OSError as error:
                self._note(error)
                file = Streams.create(self, str(path))  # a hole for what DCP will write before it hears of it
        try:
            with file:
                with phases.phase("write"):
                    yield cast(io.IOBase, _Stream(file, self._note))
                    file.flush()
                with phases.phase("fsync"):
                    self.persist(file)
                with phases.phase("close"):
                    file.close()
        except Exception as error:  # noqa: BLE001 - it is raised once DCP's threads have ended
            self._note(error)

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return suffix

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Do nothing: the null sink has no file."""

    def init_path(self, path: str | os.PathLike[str]) -> str:
        return str(path)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Do nothing: the run has made its place."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """True: any title of a place will do."""
        return True

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """False: the null sink has no file."""
        return False

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Do nothing: the null sink has no file."""

    def create(self, name: str) -> BinaryIO:
        """Open a file that takes everything. Raises OSError."""
        return Path(os.devnull).open("wb")

    def persist(self, file: BinaryIO) -> None:
        """Do nothing: the null sink keeps nothing."""

    def _note(self, error: Exception) -> None:
        self.failure = self.failure or error


class FileStreams(Streams):
    """Streams to and from the files of a run."""

    def __init__(self, files: RunFiles) -> None:
        super().__init__()
        self._files = files
        self.title = files.title

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase, None, None]:
        """Open a stream to write to, durable at the end of the block unless there is a failure; or one to read from."""
        if mode == "rb":
            try:
                file = self._files.open(str(path))
            except OSError as error:
                self._note(error)  # DCP goes on to look for other files
                raise
            with file:
                yield cast(io.IOBase, CallbackFile(file, self._note))
        else:
            with super().create_stream(path, mode) as stream:
                yield stream

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Give a file another name, if it is whole."""
        self.raise_failure()
        self._files.rename(str(path), str(new_path))

    def exists(self, path: str | os.PathLike[str]) -> bool:
        return self._files.exists(str(path))

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        self._files.remove([str(path)])

    def create(self, name: str) -> BinaryIO:
        return self._files.create(name)

    def persist(self, file: BinaryIO) -> None:
        self._files.persist(file)


class _Stream(CallbackFile):
    """A file that DCP writes to but does not close. It is flushed before it is made durable."""

    def flush(self) -> None:
        """Do nothing: the file is flushed before it is made durable."""

    def close(self) -> None:
        """Do nothing: the file is closed once it is durable."""


METADATA = ".metadata"


class Writer(FileSystemWriter):
    """DCP's writer, with `num_threads` files per rank written by as many threads."""

    def __init__(self, streams: Streams, *, num_threads: int) -> None:
        self.streams = streams
        self.plan_seconds = self.commit_seconds = 0.0
        super().__init__(streams.title, thread_count=num_threads, sync_files=False, overwrite=False)
        self.fs = self.streams  # type: ignore[assignment]  # as DCP's own writer to other file systems does

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Note that from here on the ranks plan. DCP calls it first, with arguments by their names here."""
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
    """The reader that DCP restores through, from the files of a run."""

    def __init__(self, streams: FileStreams) -> None:
        super().__init__(streams.title)
        self.fs = streams  # type: ignore[assignment]  # as in Writer
