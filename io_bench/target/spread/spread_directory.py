"""A run's directories in several targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from io_bench.target.directory.run_directory import RunDirectory
from io_bench.target.spread.several_places import InSeveralPlaces


class SpreadDirectory(InSeveralPlaces, RunDirectory):
    """The directory of this rank, with those of its peers beside it."""

    def __init__(self, path: Path, others: Sequence[Path], in_every_place: Iterable[str]) -> None:
        super().__init__(path)
        self._other_paths = tuple(others)
        self.spread([RunDirectory(other) for other in others], in_every_place)

    @property
    def paths(self) -> tuple[Path, ...]:
        """All directories."""
        return self.path, *self._other_paths
