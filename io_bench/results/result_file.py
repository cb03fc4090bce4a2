"""The result document's place on disk: proven before the run, filled in one step at its end."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sizing.errors import InvalidInput


class ResultFile:
    """A draft beside the output, which takes the output's place once it is complete."""

    def __init__(self, text: str, *, flag: str = "--output") -> None:
        """Prove that a draft can be made, and leave none yet. Raises InvalidInput where it cannot."""
        self.path = Path(text).resolve()
        self._flag = flag
        self._draft = self.path.parent / f".ckpt-bench-{secrets.token_hex(4)}.part"
        if not text or (self.path.exists() and not self.path.is_file()):
            raise self._unwritable(text, "it is not a regular file")
        try:
            self._draft.touch(exist_ok=False)
            self._draft.unlink()
        except OSError as error:
            raise self._unwritable(text, str(error.strerror)) from error

    def write(self, content: str | bytes) -> None:
        """Fill the draft and put it in the output's place. Raises InvalidInput where that fails."""
        try:
            with self._draft.open("wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
                file.flush()
                os.fsync(file.fileno())
            self._draft.replace(self.path)
        except OSError as error:
            raise self._unwritable(str(self.path), str(error.strerror)) from error

    def discard(self) -> None:
        """Remove the draft, where it is still there."""
        self._draft.unlink(missing_ok=True)

    def _unwritable(self, text: str, reason: str) -> InvalidInput:
        rule = f"must be a file that can be written ({reason})"
        return InvalidInput.of(self._flag, rule, value=text, remedy="choose another path")


@contextmanager
def reserved(text: str, *, flag: str = "--output") -> Iterator[ResultFile]:
    """A result file for the time of a run; `flag` asked for it."""
    file = ResultFile(text, flag=flag)
    try:
        yield file
    finally:
        file.discard()
