"""What is mounted where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil


def mount_of(path: Path) -> dict[str, str]:
    """The mount that holds a path: device, file system type, options and mount point."""
    mounts = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    return _last_and_longest(mounts)


def _last_and_longest(mounts: Sequence[Any]) -> dict[str, str]:
    """Of mounts one over another, the one on top."""
    if not mounts:
        return {}
    length = max(len(mount.mountpoint) for mount in mounts)
    mount = [mount for mount in mounts if len(mount.mountpoint) == length][-1]
    return {"device": mount.device, "type": mount.fstype, "options": mount.opts, "path": mount.mountpoint}
