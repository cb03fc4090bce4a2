"""The control groups that this process is in: what a batch system or a container grants of the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_MEMBERSHIPS = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """One group, by its directory; `is_unified` where it is of version 2, whose files have other names."""

    path: Path
    is_unified: bool

    def words(self, file: str) -> list[str]:
        """The words in a control file; none where it is not there."""
        try:
            return (self.path / file).read_text().split()
        except OSError:
            return []

    def number(self, file: str) -> int | None:
        """The number in a control file; None for "max", and where the file is not there."""
        words = self.words(file)
        return int(words[0]) if words and words[0].isdecimal() else None

    def statistic(self, file: str, key: str) -> int:
        """The number beside a key in a control file of pairs; 0 where it is not there."""
        words = self.words(file)
        return next((int(value) for name, value in zip(words[::2], words[1::2], strict=True) if name == key), 0)


def groups_of(controller: str) -> Iterator[ControlGroup]:
    """The groups that govern this process by one controller, e.g. "memory": its own, and those above it."""
    for line in _MEMBERSHIPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        is_unified = not controllers
        if is_unified or controller in controllers.split(","):
            root = _ROOT if is_unified else _ROOT / controller
            group = root / path.lstrip("/")
            for ancestor in [group, *group.parents]:
                if ancestor.is_relative_to(root):
                    yield ControlGroup(ancestor, is_unified)
