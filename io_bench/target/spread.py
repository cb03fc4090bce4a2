"""Several places as one target: mount points, buckets, ways to the storage. Rank r of a node has place r mod n.

A rank's files are in its own place, and who leads the run sees to all.
"""

# What super() finds here is the class beside this one, never the protocol.
# mypy: disable-error-code="safe-super"

from __future__ import annotations

import contextlib
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from io_bench.errors import unwritable
from io_bench.target.directory import EXISTS_ALREADY, DirectoryTarget, RunDirectory
from io_bench.target.target import PartTransfer, RunFiles, Target
from sizing.errors import InvalidInput
from sizing.storage.measurement import CachePolicy


class InSeveralPlaces(RunFiles):
    """The places of a run that is spread over several targets; the class beside it is the place of this rank.

    Files of the run are created, opened and removed in its own alone. Those named `in_every_place`, and what lost ranks
    have left, concern all places. Two places may be one, reached by two ways: a mount for each network adapter, an
    endpoint for each server. What has happened in one of them has then happened in the other too.
    """

    def spread(self, others: Sequence[RunFiles], in_every_place: Iterable[str]) -> None:
        """Take `others` for the places of other ranks."""
        self._others = tuple(others)
        self._in_every_place = frozenset(in_every_place)

    @property
    def title(self) -> str:
        own = super().title
        return ", ".join([own, *(other.title for other in self._others)])

    def disown(self, name: str) -> None:
        """Leave a file out of `remove_created`: it goes last. It is whole now, so it can be copied to all places."""
        super().disown(name)
        if name in self._in_every_place:
            with self.open(name) as file:
                content = file.read()
            for other in self._others:
                with contextlib.suppress(FileExistsError), other.create(name) as copy:
                    copy.write(content)
                other.disown(name)

    def touch(self, name: str) -> None:
        super().touch(name)
        for other in self._with(name):
            other.touch(name)

    def exists(self, name: str) -> bool:
        return super().exists(name) or any(other.exists(name) for other in self._with(name))

    def remove(self, names: Iterable[str]) -> None:
        doomed = tuple(names)
        super().remove(doomed)
        for name in doomed:
            for other in self._with(name):
                other.remove([name])

    def remove_of_lost(self, names: Iterable[str]) -> None:
        """Remove files that lost ranks have written, wherever they are. Raises OSError."""
        doomed = tuple(names)
        super().remove_of_lost(doomed)
        for other in self._others:
            other.remove_of_lost(doomed)

    def names(self) -> list[str]:
        return sorted({*super().names(), *itertools.chain.from_iterable(other.names() for other in self._others)})

    def unmake(self) -> None:
        """Remove the places, which are empty. Raises OSError."""
        for unmake in (*(other.unmake for other in self._others), super().unmake):
            with contextlib.suppress(FileNotFoundError):
                unmake()

    def close(self) -> None:
        super().close()
        for other in self._others:
            other.close()

    def _with(self, name: str) -> Sequence[RunFiles]:
        return self._others if name in self._in_every_place else ()


AnyTarget = TypeVar("AnyTarget", bound=Target)


@dataclass(frozen=True, slots=True)
class Spreading:
    """The place of this rank, which `ranks_of_node` share. Files named `in_every_place` say in each whose it is."""

    local_rank: int
    ranks_of_node: int
    in_every_place: Iterable[str] = field(default=())


@dataclass(frozen=True, slots=True)
class MultiTarget(ABC, Generic[AnyTarget]):
    """Several targets in the order in which they were given; `own` is that of this rank. Fulfils Target."""

    places: tuple[AnyTarget, ...]
    spreading: Spreading

    def place_of(self, local_rank: int) -> AnyTarget:
        """The place of a rank, by its place on its node."""
        return self.places[local_rank % len(self.places)]

    @property
    def own(self) -> AnyTarget:
        """The target of this rank."""
        return self.place_of(self.spreading.local_rank)

    @property
    def title(self) -> str:
        return ", ".join(place.title for place in self.places)

    @property
    def remark(self) -> str:
        """The remarks about each target."""
        return " ".join(filter(None, (place.remark for place in self.places)))

    @property
    def cache_policy(self) -> CachePolicy | None:
        """The cache policy that all targets share."""
        return self.own.cache_policy

    def transfer(
        self, *, block_bytes: int | None, num_parallel: int | None, largest_file_bytes: int
    ) -> PartTransfer | None:
        """How this rank's place moves files. Raises InvalidInput for what one of the places does not take."""
        transfers = (
            place.transfer(block_bytes=block_bytes, num_parallel=num_parallel, largest_file_bytes=largest_file_bytes)
            for place in self.places
        )
        return dict(zip(self.places, transfers, strict=True))[self.own]

    def description(self) -> dict[str, str]:
        """Describe the first place, and for each other what it has of its own."""
        first, *others = (place.description() for place in self.places)
        return first | {
            f"{name} of target {number}": value
            for number, place in enumerate(others, start=2)
            for name, value in place.items()
        }

    def run_ids(self) -> list[str]:
        """The runs that have a place in any of them. Raises OSError."""
        return sorted({run_id for place in self.places for run_id in place.run_ids()})

    def run_title(self, run_id: str) -> str:
        """Where a run's places will be."""
        return ", ".join(place.run_title(run_id) for place in self.places)

    @abstractmethod
    def check_space(self, needed_bytes: int) -> None:
        """Raise InvalidInput where a place has less free than the ranks need that are spread to it."""

    @abstractmethod
    def make_run(self, run_id: str) -> RunFiles:
        """Make places for a run. Raises InvalidInput where one is not allowed, or is there already."""

    @abstractmethod
    def open_run(self, run_id: str) -> RunFiles:
        """The places that another rank, or another run, has made. Raises OSError."""


def each_once(places: Sequence[AnyTarget], kind: str) -> tuple[AnyTarget, ...]:
    """Check that no place is there twice. Raises InvalidInput. Args: `kind`, what errors call one of them."""
    titles = [place.title for place in places]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise InvalidInput.of("--target", f"must not name the same {kind} twice", value=twice, remedy="give it once")
    return tuple(places)


class SpreadDirectory(InSeveralPlaces, RunDirectory):
    """The directory of this rank, with those of its peers beside it."""

    def __init__(self, path: Path, others: Sequence[Path], in_every_place: Iterable[str]) -> None:
        super().__init__(path)
        self._other_paths = tuple(others)
        self.spread([RunDirectory(other) for other in others], in_every_place)

    @property
    def paths(self) -> tuple[Path, ...]:
        """List all directories."""
        return self.path, *self._other_paths


@dataclass(frozen=True, slots=True)
class SpreadDirectories(MultiTarget[DirectoryTarget]):
    """Mount points as one target, each with the ranks spread to it."""

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

    def make_run(self, run_id: str) -> SpreadDirectory:
        """Make directories for a run. Raises InvalidInput where one is not allowed, or is there already."""
        paths = [Path(place.run_title(run_id)) for place in self.places]
        if existing := next(filter(Path.exists, paths), None):
            raise unwritable(existing, EXISTS_ALREADY)
        with contextlib.ExitStack() as stack:
            for place, path in zip(self.places, paths, strict=True):
                if _make_unless_there(place, run_id):
                    stack.callback(path.rmdir)
            files = self.open_run(run_id)
            stack.pop_all()
        return files

    def open_run(self, run_id: str) -> SpreadDirectory:
        """The directories that another rank, or another run, has made. Raises OSError."""
        paths = [Path(place.run_title(run_id)) for place in self.places]
        own = Path(self.own.run_title(run_id))
        there = [path for path in paths if path.is_dir()] or [own]
        first = own if own in there else there[0]
        return SpreadDirectory(first, [path for path in there if path != first], self.spreading.in_every_place)


def _make_unless_there(place: DirectoryTarget, run_id: str) -> bool:
    """Make the directory of a run; False where it is there already, as where one storage is mounted twice."""
    try:
        place.make_run(run_id).close()
    except InvalidInput as error:
        if not isinstance(error.__cause__, FileExistsError):
            raise
        return False
    return True
