"""Several directories as one target."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from io_bench.errors import unwritable
from io_bench.target.directory.directory_target import EXISTS_ALREADY, DirectoryTarget
from io_bench.target.spread.spread_directory import SpreadDirectory
from io_bench.target.spread.spread_target import Spreading, SpreadTarget, each_once
from sizing.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class SpreadDirectories(SpreadTarget[DirectoryTarget]):
    """Mount points, each with the ranks spread to it."""

    @classmethod
    def checked(cls, texts: Sequence[str], spreading: Spreading) -> SpreadDirectories:
        """The target that paths name. Raises InvalidInput where one is no directory to write to, or is there twice."""
        return cls(each_once([DirectoryTarget.checked(text) for text in texts], "directory"), spreading)

    def check_space(self, needed_bytes: int) -> None:
        """Raise InvalidInput where a file system has less free than the ranks need that are spread to it."""
        num_ranks = max(1, self.spreading.ranks_of_node)
        shares = Counter[int]()
        for rank in range(num_ranks):
            shares[self.place_of(rank).path.stat().st_dev] += 1
        for place in self.places:
            place.check_space(-(-needed_bytes * shares[place.path.stat().st_dev] // num_ranks))

    def made(self, run_id: str) -> SpreadDirectory:
        """New directories. Raises InvalidInput where one is not allowed, or is there already."""
        paths = [Path(place.run_title(run_id)) for place in self.places]
        if found := next(filter(Path.exists, paths), None):
            raise unwritable(found, EXISTS_ALREADY)
        with contextlib.ExitStack() as made:
            for place, path in zip(self.places, paths, strict=True):
                if _is_new(place, run_id):
                    made.callback(path.rmdir)
            files = self.seen(run_id)
            made.pop_all()
        return files

    def seen(self, run_id: str) -> SpreadDirectory:
        """The directories that another rank, or another run, has made. Raises OSError."""
        paths = [Path(place.run_title(run_id)) for place in self.places]
        own = Path(self.own.run_title(run_id))
        there = [path for path in paths if path.is_dir()] or [own]
        first = own if own in there else there[0]
        return SpreadDirectory(first, [path for path in there if path != first], self.spreading.in_every_place)


def _is_new(place: DirectoryTarget, run_id: str) -> bool:
    """Make the directory of a run; whether another place has not made it: the same storage may be mounted twice."""
    try:
        place.made(run_id).close()
    except InvalidInput as error:
        if not isinstance(error.__cause__, FileExistsError):
            raise
        return False
    return True
