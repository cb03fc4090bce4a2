"""A target of several places: rank r of a node has place r mod n."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from io_bench.target.run_files import RunFiles
from io_bench.target.target import Target
from io_bench.target.transfer import Transfer
from sizing.errors import InvalidInput
from sizing.storage.measurement import CachePolicy

AnyTarget = TypeVar("AnyTarget", bound=Target)


@dataclass(frozen=True, slots=True)
class Spreading:
    """Which place this rank has: `ranks_of_node` share them. Files named `in_every_place` say in each whose it is."""

    local_rank: int
    ranks_of_node: int
    in_every_place: Iterable[str] = field(default=())


@dataclass(frozen=True, slots=True)
class SpreadTarget(ABC, Generic[AnyTarget]):
    """Places in the order in which they were given; `own` is that of this rank. Fulfils Target."""

    places: tuple[AnyTarget, ...]
    spreading: Spreading

    def place_of(self, local_rank: int) -> AnyTarget:
        """The place of a rank, by its place on its node."""
        return self.places[local_rank % len(self.places)]

    @property
    def own(self) -> AnyTarget:
        """That of this rank."""
        return self.place_of(self.spreading.local_rank)

    @property
    def title(self) -> str:
        """The paths or URLs."""
        return ", ".join(place.title for place in self.places)

    @property
    def remark(self) -> str:
        """What the user should know of each."""
        return " ".join(filter(None, (place.remark for place in self.places)))

    @property
    def cache_policy(self) -> CachePolicy | None:
        """That of all."""
        return self.own.cache_policy

    def transfer(
        self, *, block_bytes: int | None, num_parallel: int | None, largest_file_bytes: int
    ) -> Transfer | None:
        """How its place moves this rank's files. Raises InvalidInput for what one of the places does not take."""
        asked = (
            place.transfer(block_bytes=block_bytes, num_parallel=num_parallel, largest_file_bytes=largest_file_bytes)
            for place in self.places
        )
        return dict(zip(self.places, asked, strict=True))[self.own]

    def description(self) -> dict[str, str]:
        """What there is to say of the first place, and for each other what it has of its own."""
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
    def made(self, run_id: str) -> RunFiles:
        """New places for a run. Raises InvalidInput where one is not allowed, or is there already."""

    @abstractmethod
    def seen(self, run_id: str) -> RunFiles:
        """The places that another rank, or another run, has made. Raises OSError."""


def each_once(places: Sequence[AnyTarget], kind: str) -> tuple[AnyTarget, ...]:
    """The same places. Raises InvalidInput where one is there twice. Args: `kind`, what errors call one of them."""
    titles = [place.title for place in places]
    twice = next((title for title in titles if titles.count(title) > 1), None)
    if twice is not None:
        raise InvalidInput.of("--target", f"must not name the same {kind} twice", value=twice, remedy="give it once")
    return tuple(places)
