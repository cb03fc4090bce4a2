"""Several places in object stores as one target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from io_bench.target.object_store.url_target import UrlTarget
from io_bench.target.spread.spread_prefix import SpreadPrefix
from io_bench.target.spread.spread_target import Spreading, SpreadTarget, each_once


@dataclass(frozen=True, slots=True)
class SpreadUrls(SpreadTarget[UrlTarget]):
    """Buckets, or prefixes of them, each with the ranks spread to it."""

    @classmethod
    def checked(cls, urls: Sequence[str], spreading: Spreading, *, is_first: bool) -> SpreadUrls:
        """The target that URLs name. Raises InvalidInput where one cannot be reached, or is there twice.

        Args: `is_first`, for the one rank that asks the stores.
        """
        return cls(each_once([UrlTarget.checked(url, is_first=is_first) for url in urls], "URL"), spreading)

    def check_space(self, needed_bytes: int) -> None:
        """Nothing: object stores do not tell how much is free."""

    def made(self, run_id: str) -> SpreadPrefix:
        """New prefixes. Raises InvalidInput where there are objects under one already."""
        for place in self.places:
            place.made(run_id).close()
        return self.seen(run_id)

    def seen(self, run_id: str) -> SpreadPrefix:
        """The prefixes that another rank has made."""
        own = self.own
        files = own.seen_as(SpreadPrefix, run_id)
        files.spread([place.seen(run_id) for place in self.places if place is not own], self.spreading.in_every_place)
        return files
