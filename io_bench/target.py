"""The directory that is measured: checked before anything is written there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from io_bench.errors import too_small
from sizing.errors import InvalidInput
from sizing.units import bytes_text, percent_text

_SPARE_FRACTION = 0.05


def checked_target(text: str) -> Path:
    """The target as a resolved path. Raises InvalidInput where it is no directory to write to."""
    try:
        mode = Path(text).stat().st_mode if text else 0
    except OSError as error:
        rule = f"must be a directory that exists ({error.strerror})"
        raise InvalidInput.of("--target", rule, value=text, remedy="create it, or give another one") from error
    if not stat.S_ISDIR(mode):
        raise InvalidInput.of("--target", "must be a directory", value=text, remedy="give a directory")
    if not os.access(text, os.W_OK | os.X_OK):
        raise unwritable(text, "permission denied")
    return Path(text).resolve()


def unwritable(target: object, reason: str) -> InvalidInput:
    """The error for a target that cannot be written to."""
    remedy = "give a directory that you may write to"
    return InvalidInput.of("--target", f"must be writable ({reason})", value=str(target), remedy=remedy)


def check_space(target: Path, needed_bytes: int) -> None:
    """Raise InvalidInput where the target's file system has less free than is needed, plus 5 %."""
    system = os.statvfs(target)
    needed = round(needed_bytes * (1 + _SPARE_FRACTION))
    free = system.f_bavail * system.f_frsize
    # Some network file systems report no size at all.
    if system.f_blocks and free < needed:
        checkpoint = f"one checkpoint of all ranks and {percent_text(_SPARE_FRACTION)} more"
        rule = f"has {bytes_text(free)} free where {checkpoint} take {bytes_text(needed)}"
        raise too_small("--target", rule)
