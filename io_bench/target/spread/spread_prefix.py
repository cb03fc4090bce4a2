"""A run's prefixes in several object stores, buckets or places of them."""

from __future__ import annotations

from io_bench.target.object_store.run_prefix import RunPrefix
from io_bench.target.spread.several_places import InSeveralPlaces


class SpreadPrefix(InSeveralPlaces, RunPrefix):
    """The prefix of this rank, with those of its peers beside it."""
