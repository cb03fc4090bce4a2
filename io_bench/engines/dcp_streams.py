"""Streams that DCP's writer and reader use as their file system: the files of a run, or a null sink."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from torch.distributed.checkpoint.filesystem import FileSystemBase

from io_bench.engines.phases import Phases
from io_bench.target.run_files import RunFiles


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
        """From here on no file is created: the run removes what is there."""
        with self._lock:
            self._is_stopped = True

    def raise_failure(self) -> None:
        """Raise the first error of any thread."""
        if self.failure is not None:
            raise self.failure

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Generator[io.IOBase, None, None]:
        """A stream to write to, durable at the end of the block unless there is a failure."""
        phases = Phases()
        self.phases.append(phases)
        with phases.phase("create"):
            file = self._created(str(path))
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
        """The name of a file."""
        return suffix

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Nothing: there is none."""

    def init_path(self, path: str | os.PathLike[str]) -> str:
        """The place, for DCP's log."""
        return str(path)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Nothing: the run has made its place."""

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Any title of a place will do."""
        return True

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """There is none."""
        return False

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Nothing: there is none."""

    def create(self, name: str) -> BinaryIO:
        """A file that takes everything. Raises OSError."""
        return Path(os.devnull).open("wb")

    def persist(self, file: BinaryIO) -> None:
        """Nothing: it is not kept."""

    def _created(self, name: str) -> BinaryIO:
        """The new file; where there can be none, a hole for what DCP will write before it hears of it."""
        with self._lock:
            try:
                if self._is_stopped:
                    raise OSError(f"{name} comes too late: the run is over")
                return self.create(name)
            except OSError as error:
                self._note(error)
                return Streams.create(self, name)

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
        """A stream to write to, as above; or one to read from."""
        if mode == "rb":
            with self._files.open(str(path)) as file:
                yield cast(io.IOBase, file)
        else:
            with super().create_stream(path, mode) as stream:
                yield stream

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Give a file another name, if it is whole."""
        self.raise_failure()
        self._files.rename(str(path), str(new_path))

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Whether there is such a file."""
        return self._files.exists(str(path))

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Remove a file."""
        self._files.remove([str(path)])

    def create(self, name: str) -> BinaryIO:
        """A new file. Raises OSError."""
        return self._files.create(name)

    def persist(self, file: BinaryIO) -> None:
        """Make a file durable. Raises OSError."""
        self._files.persist(file)


class _Stream:
    """A file that DCP writes to but does not close, and whose errors torch does not cover up."""

    def __init__(self, file: BinaryIO, note: Callable[[Exception], None]) -> None:
        self._file = file
        self._note = note
        self.tell = file.tell

    def write(self, data: Any) -> int:
        """Write to the file."""
        try:
            return self._file.write(data)
        except OSError as error:
            self._note(error)
            raise

    def flush(self) -> None:
        """Nothing: it is flushed before it is made durable."""

    def close(self) -> None:
        """Nothing, likewise."""
