"""The figures that are kept of an answer, in words: what a list of answers shows without asking any of them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sizing.units import figure_text

TARGETS_MET = "targets.met"
"""Whether all targets are met, beside the figures that have a path in a report."""
SHOWN: dict[str, str] = {
    "checkpoint.written_bytes": "One checkpoint",
    "write.bytes_per_second": "Write bandwidth",
    "overhead.fraction": "Overhead",
    "interval.goodput_at_interval_fraction": "Goodput",
}
"""By their paths in a report, those that a list shows, with their labels."""
_VERDICTS = {True: "met", False: "missed", None: "not known"}


def targets_met(checks: Sequence[Mapping[str, Any]], *, cannot_run: str | None) -> bool | None:
    """Whether all targets of a report, given as documents, are met; None where one is not known and none is missed.

    >>> targets_met([{"met": True}, {"met": None}], cannot_run=None)
    >>> targets_met([{"met": True}], cannot_run="the state does not fit"), targets_met([{"met": True}], cannot_run=None)
    (False, True)
    """
    found = [check["met"] for check in checks]
    if cannot_run is not None or False in found:
        return False
    return None if None in found else True


class Kept(NamedTuple):
    """A kept figure: what it is of, in words, and as it was kept."""

    label: str
    figure: str
    value: Any


def kept_in_words(figures: Mapping[str, Any]) -> Iterator[Kept]:
    """Each kept figure that a list shows; what was not kept is left out.

    >>> [found[:2] for found in kept_in_words({"checkpoint.written_bytes": 13.8e12, "targets.met": False})]
    [('One checkpoint', '13.80 TB'), ('Targets', 'missed')]
    """
    for name, label in SHOWN.items():
        if name in figures:
            yield Kept(label, figure_text(name, figures[name]), figures[name])
    if TARGETS_MET in figures:
        yield Kept("Targets", _VERDICTS[figures[TARGETS_MET]], figures[TARGETS_MET])
