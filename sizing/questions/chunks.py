"""How a heavy question is cut into chunks that any process computes alone, and how their results become the report.

A chunk is a pure function of the request and a range of its items: of rows, of draws, of runs. Whoever computes it, in
whichever order, gets the same bytes, so that chunks may be computed twice, elsewhere, or after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel

Progress = Callable[[float], None]
"""Hears which fraction of the work is done."""


def ignore_progress(_fraction: float) -> None:
    """Ignore progress that nobody waits for."""


class ItemRange(NamedTuple):
    """Items `start` to before `stop` of a request: rows of a sweep, draws of odds, runs of a simulation."""

    start: int
    stop: int


PartT = TypeVar("PartT", bound=BaseModel)
ReportT_co = TypeVar("ReportT_co", bound=BaseModel, covariant=True)


class ChunkedWork(Protocol[PartT, ReportT_co]):
    """What a request asks for, cut into chunks. A process makes it once of the request, for all that it computes.

    Its methods depend on the request alone: neither on the number of workers nor on what was computed before.
    """

    @property
    def part(self) -> type[PartT]:
        """What a chunk results in; its JSON is what processes send and databases keep."""

    @property
    def chunks(self) -> Sequence[ItemRange]:
        """The ranges, in order, of 1 to 30 s of work each; one range where the request needs no cutting."""

    def compute(self, items: ItemRange, progress: Progress) -> PartT:
        """Compute the part of a range. `progress` hears the fraction of it that is done."""

    def merge(self, parts: Iterable[PartT]) -> ReportT_co:
        """Make the report of the parts, in the order of their ranges. Raises InvalidInput where there is no answer."""


WorkMaker = Callable[[], ChunkedWork[Any, Any]]
"""Makes the work anew, in whichever process it is called: it can be pickled."""
Computer = Callable[[ChunkedWork[Any, Any], WorkMaker, Progress], Iterable[Any]]
"""Computes the parts of all chunks, in their order."""


def compute_here(
    work: ChunkedWork[PartT, Any], _make: WorkMaker, progress: Progress = ignore_progress
) -> Iterator[PartT]:
    """Compute the parts of all chunks in this process, one after the other."""
    done, num_items = 0, sum(chunk.stop - chunk.start for chunk in work.chunks)
    for chunk in work.chunks:
        size = chunk.stop - chunk.start

        def hear(fraction: float, before: int = done, size: int = size) -> None:
            progress((before + fraction * size) / num_items)

        yield work.compute(chunk, hear)
        done += size


class KeptParts(Protocol):
    """Parts of the same request that were computed before, and those to keep for whoever computes it after this."""

    @property
    def chunks(self) -> Collection[ItemRange]:
        """The ranges whose parts are there."""

    def find(self, chunk: ItemRange) -> bytes | None:
        """Find the JSON of the part of one of these ranges; None where it is gone."""

    def keep(self, chunk: ItemRange, part: bytes) -> None:
        """Keep the JSON of a part, or leave it where it is too large."""


class ChunksLeft(Generic[PartT, ReportT_co]):
    """Work of which some chunks are left to compute."""

    def __init__(self, work: ChunkedWork[PartT, ReportT_co], chunks: Sequence[ItemRange]) -> None:
        self.part, self.chunks = work.part, chunks
        self.compute, self.merge = work.compute, work.merge


def compute_what_is_missing(parts: KeptParts, computer: Computer) -> Computer:
    """Make a computer that takes the parts which are kept, and keeps those that another computer computes."""

    def compute(work: ChunkedWork[Any, Any], make: WorkMaker, progress: Progress) -> Iterator[Any]:
        if len(work.chunks) == 1:  # whoever keeps its part is about to have the answer
            yield from computer(work, make, progress)
            return
        left = [chunk for chunk in work.chunks if chunk not in parts.chunks]
        num_items, num_left = (sum(chunk.stop - chunk.start for chunk in chunks) for chunks in (work.chunks, left))
        computed = iter(
            computer(ChunksLeft(work, left), make, lambda done: progress(1 - (1 - done) * num_left / num_items))
            if left
            else ()
        )
        for chunk in work.chunks:
            kept = parts.find(chunk) if chunk in parts.chunks else None
            if kept is not None:
                yield work.part.model_validate_json(kept)
                continue
            part = work.compute(chunk, ignore_progress) if chunk in parts.chunks else next(computed)
            parts.keep(chunk, part.model_dump_json().encode())
            yield part

    return compute


def cut(bounds: Sequence[int], *, max_items: int) -> list[ItemRange]:
    """Cut the items between the first and the last bound into ranges, at each bound and after `max_items`.

    >>> cut([0, 5, 9], max_items=3)
    [ItemRange(start=0, stop=3), ItemRange(start=3, stop=5), ItemRange(start=5, stop=8), ItemRange(start=8, stop=9)]
    """
    return [
        ItemRange(start, min(start + max_items, last))
        for first, last in pairwise(bounds)
        for start in range(first, last, max_items)
    ]
