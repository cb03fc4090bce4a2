"""The incident book: public reports of what saves and loads took, each beside what the model makes of the report."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.validation.comparison import Comparison
from sizing.validation.incidents.loads import loads
from sizing.validation.incidents.not_predicted import WITHOUT_FIGURE, not_predicted
from sizing.validation.incidents.saves import saves
from sizing.validation.incidents.sizes import sizes
from sizing.validation.incidents.stalls import stalls

__all__ = ["WITHOUT_FIGURE", "incidents"]


def incidents() -> Iterator[Comparison]:
    """Every report: stalls, saves, loads, sizes, and those that publish too little to be predicted."""
    yield from stalls()
    yield from saves()
    yield from loads()
    yield from sizes()
    yield from not_predicted()
