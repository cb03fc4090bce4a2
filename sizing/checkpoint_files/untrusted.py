"""Read untrusted files within bounds, and refuse them in sentences that name the file and the remedy."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from sizing.errors import UnreadableFile
from sizing.units import bytes_text

DAMAGED_REMEDY = "copy or save the checkpoint again"


def refusal(path: Path, wrong: str, remedy: str) -> UnreadableFile:
    """Make the error that refuses a file: its path, what is wrong, and the remedy.

    >>> str(refusal(Path("a.pt"), "is empty", "save it again"))
    'a.pt is empty: save it again.'
    """
    return UnreadableFile(f"{printable(str(path))} {wrong}: {remedy}.")


def printable(text: str) -> str:
    r"""Make text from a file's name or content safe for a terminal: no control characters, and not too long.

    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return plain if len(plain) <= 300 else f"{plain[:299]}…"


def regular_file_bytes(path: Path) -> int:
    """Return the size of a regular file; links are followed.

    Raises UnreadableFile if there is none, or for anything that could block or never end when opened.
    """
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise unopened(path, error) from None
    if not stat.S_ISREG(status.st_mode):
        raise refusal(path, "is not a regular file", "give a checkpoint's file or folder")
    return status.st_size


def leading_bytes(path: Path, size: int, *, at: int = 0) -> bytes:
    """Read up to `size` bytes of a regular file from offset `at`.

    Raises UnreadableFile if it cannot be read.
    """
    regular_file_bytes(path)
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(size)
    except OSError as error:
        raise unopened(path, error) from None


def bounded_content(path: Path, *, max_bytes: int, what: str) -> bytes:
    """Read a whole file of at most `max_bytes`.

    Raises UnreadableFile if it is larger or cannot be read.
    """
    size = regular_file_bytes(path)
    if size > max_bytes:
        raise too_large(path, what, size=size, max_bytes=max_bytes)
    return leading_bytes(path, size)


def too_large(path: Path, what: str, *, size: int, max_bytes: int) -> UnreadableFile:
    """Make the error for a part of a file that would take too much memory and time to read."""
    wrong = f"has {what} of {bytes_text(size)}, more than the max of {bytes_text(max_bytes)}"
    return refusal(path, wrong, "measure the checkpoint's files instead and give checkpoint.observed_bytes")


def unopened(path: Path, error: OSError | ValueError) -> UnreadableFile:
    """Make the error for a file that the operating system refuses to open."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return refusal(path, f"cannot be read ({os.fsdecode(reason)})", "check the name and permissions")


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder.

    Raises UnreadableFile if that cannot be determined.
    """
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise unopened(path, error) from None


def json_object(text: bytes) -> dict[str, Any]:
    """Parse a text that must be a JSON object.

    >>> json_object(b'{"a": 1}')
    {'a': 1}

    Raises ValueError, with a reason, where it is none.
    """
    try:
        document = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    if not isinstance(document, dict):
        raise ValueError("it is not an object")
    return document


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a field is given twice in one object")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
