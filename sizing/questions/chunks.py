"""How a heavy question is cut into chunks that any process computes alone, and how their results become the report.

A chunk is a pure function of the request and a range of its items: of rows, of draws, of runs. Whoever computes it, in
whichever order, gets the same bytes, so that chunks may be computed twice, elsewhere, or after a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from pydantic import BaseModel

RequestT = TypeVar("RequestT", bound=BaseModel)
PartT = TypeVar("PartT", bound=BaseModel)
ReportT = TypeVar("ReportT", bound=BaseModel)


class ItemRange(NamedTuple):
    """Items `start` to before `stop` of a request: rows of a sweep, draws of odds, runs of a simulation."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Chunking(Generic[RequestT, PartT, ReportT]):
    """How the requests of a question are cut and merged.

    Both `cut` and `compute` depend on the request alone: neither on the number of workers nor on what came before.
    """

    part: type[PartT]
    """What a chunk results in; its JSON is what processes send and databases keep."""
    cut: Callable[[RequestT], Sequence[ItemRange]]
    """The ranges, in order, of 1 to 30 s of work each; one range where the request needs no cutting.

    Raises InvalidInput where the request has no answer."""
    compute: Callable[[RequestT, ItemRange], PartT]
    """Computes the part of a range. Raises InvalidInput where the request has no answer."""
    merge: Callable[[RequestT, Iterable[PartT]], ReportT]
    """Makes the report of the parts, in the order of their ranges. Raises InvalidInput where there is no answer."""
