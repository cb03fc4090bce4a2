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

    def __init__(self, text: str) -> None:
        """Create the draft. Raises InvalidInput where the output cannot be written."""
        self.path = Path(text).resolve()
        self._draft = self.path.parent / f".ckpt-bench-{secrets.token_hex(4)}.part"
        if not text or (self.path.exists() and not self.path.is_file()):
            raise _unwritable(text, "it is not a regular file")
        try:
            self._draft.touch(exist_ok=False)
        except OSError as error:
            raise _unwritable(text, str(error.strerror)) from error

    def write(self, text: str) -> None:
        """Fill the draft and put it in the output's place. Raises InvalidInput where that fails."""
        try:
            with self._draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            self._draft.replace(self.path)
        except OSError as error:
            raise _unwritable(str(self.path), str(error.strerror)) from error

    def discard(self) -> None:
        """Remove the draft, where it is still there."""
        self._draft.unlink(missing_ok=True)


@contextmanager
def reserved(text: str) -> Iterator[ResultFile]:
    """The result file for the time of a run."""
    file = ResultFile(text)
    try:
        yield file
    finally:
        file.discard()


def _unwritable(text: str, reason: str) -> InvalidInput:
    rule = f"must be a file that can be written ({reason})"
    return InvalidInput.of("--output", rule, value=text, remedy="give another path")
