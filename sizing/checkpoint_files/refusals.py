"""How a file is refused: one sentence with the file, what is wrong with it, and what to do."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sizing.errors import UnreadableFile
from sizing.units import bytes_text

DAMAGED_REMEDY = "copy or save the checkpoint again"


def refusal(path: Path, wrong: str, remedy: str) -> UnreadableFile:
    """The error for a file.

    >>> str(refusal(Path("a.pt"), "is empty", "save it again"))
    'a.pt is empty: save it again.'
    """
    return UnreadableFile(f"{printable(str(path))} {wrong}: {remedy}.")


def printable(text: str) -> str:
    r"""Text from a file's name or content as a terminal may show it: no control characters, not endless.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return plain if len(plain) <= 300 else f"{plain[:299]}…"


def regular_file_bytes(path: Path) -> int:
    """The size of a regular file; links are followed.

    Raises UnreadableFile where there is none, or something that opening could block on or never end.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise unopened(path, error) from None
    if not stat.S_ISREG(status.st_mode):
        raise refusal(path, "is not a regular file", "give a checkpoint's file or folder")
    return status.st_size


def leading_bytes(path: Path, size: int, *, at: int = 0) -> bytes:
    """Up to `size` bytes of a regular file from the place `at`.

    Raises UnreadableFile where it cannot be read.
    """
    regular_file_bytes(path)
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(size)
    except OSError as error:
        raise unopened(path, error) from None


def bounded_content(path: Path, *, max_bytes: int, what: str) -> bytes:
    """The whole of a file that may hold at most `max_bytes`.

    Raises UnreadableFile where it is larger or cannot be read.
    """
    size = regular_file_bytes(path)
    if size > max_bytes:
        raise too_large(path, what, size=size, max_bytes=max_bytes)
    return leading_bytes(path, size)


def too_large(path: Path, what: str, *, size: int, max_bytes: int) -> UnreadableFile:
    """The error for a part of a file that would take too much memory and time to read."""
    wrong = f"has {what} of {bytes_text(size)}, more than the max of {bytes_text(max_bytes)}"
    return refusal(path, wrong, "measure the checkpoint's files instead and give --observed-bytes")


def unopened(path: Path, error: OSError | ValueError) -> UnreadableFile:
    """The error for a file that the operating system does not give."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return refusal(path, f"cannot be read ({os.fsdecode(reason)})", "check the name and permissions")
