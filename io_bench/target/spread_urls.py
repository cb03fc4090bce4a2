"""Several places in object stores as one target. Apart from `spread`, as it takes fsspec."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from io_bench.target.object_store.url_target import RunPrefix, UrlTarget
from io_bench.target.spread import InSeveralPlaces, MultiTarget, Spreading, each_once


class SpreadPrefix(InSeveralPlaces, RunPrefix):
    """The prefix of this rank, with those of its peers beside it."""


@dataclass(frozen=True, slots=True)
class SpreadUrls(MultiTarget[UrlTarget]):
    """Buckets, or prefixes of them, as one target, each with the ranks spread to it."""

    @classmethod
    def checked(cls, urls: Sequence[str], spreading: Spreading, *, is_first: bool) -> SpreadUrls:
        """The target that URLs name. Raises InvalidInput where one cannot be reached, or is there twice.

        Args: `is_first`, for the one rank that asks the stores.
        """
        return cls(each_once([UrlTarget.checked(url, is_first=is_first) for url in urls], "URL"), spreading)

    def check_space(self, needed_bytes: int) -> None:
        """Do nothing: object stores do not tell how much is free."""

    def make_run(self, run_id: str) -> SpreadPrefix:
        """Make prefixes for a run. Raises InvalidInput where there are objects under one already."""
        for place in self.places:
            place.make_run(run_id).close()
        return self.open_run(run_id)

    def open_run(self, run_id: str) -> SpreadPrefix:
        """The prefixes that another rank has made."""
        own = self.own
        files = own.open_run_as(SpreadPrefix, run_id)
        files.spread(
            [place.open_run(run_id) for place in self.places if place is not own], self.spreading.in_every_place
        )
        return files
