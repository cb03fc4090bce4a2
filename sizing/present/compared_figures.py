"""The figures by which answers are compared, stored with a scenario, and shown in a list without a new answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sizing.units import figure_text

_ROUNDING = 1e-9
"""Figures of equal inputs agree to some 1e-13; what differs by less than this was not changed."""

COMPARED_FIGURES = (
    "model.num_parameters",
    "checkpoint.total_bytes",
    "checkpoint.written_bytes",
    "checkpoint.num_files",
    "layout.num_gpus",
    "layout.num_nodes",
    "layout.num_writers",
    "layout.max_rank_bytes",
    "training.gpu_state_bytes",
    "training.total_bytes",
    "training.bubble_fraction",
    "write.seconds",
    "write.stall_seconds",
    "write.drain_seconds",
    "write.bytes_per_second",
    "write.bottleneck",
    "restore.read_bytes",
    "restore.seconds",
    "restore.bottleneck",
    "overhead.fraction",
    "overhead.rework_fraction",
    "interval.mtbf_seconds",
    "interval.goodput_at_interval_fraction",
    "interval.optimal_period_seconds",
    "interval.goodput_at_optimum_fraction",
    "recovery.recovery_seconds",
    "recovery.available_fraction",
    "recovery.num_spare_gpus",
    "required.write_bytes_per_second",
    "required.restore_bytes_per_second",
    "capacity.capacity_bytes",
    "capacity.usable_bytes",
    "capacity.raw_bytes",
    "capacity.written_bytes_per_day",
    "cost.total",
)

TARGETS_MET = "targets.met"
"""Whether all targets are met, beside the figures that have a path in a report."""
SHOWN: dict[str, str] = {
    "checkpoint.written_bytes": "One checkpoint",
    "write.bytes_per_second": "Write bandwidth",
    "overhead.fraction": "Overhead",
    "interval.goodput_at_interval_fraction": "Goodput",
}
"""Labels of the figures that a list shows, by their paths in a report."""
_VERDICTS = {True: "met", False: "missed", None: "not known"}


def targets_met(checks: Sequence[Mapping[str, Any]], *, cannot_run: str | None) -> bool | None:
    """Whether all targets of a report, given as documents, are met; None where one is not known and none is missed.

    >>> targets_met([{"met": True}, {"met": None}], cannot_run=None)
    >>> targets_met([{"met": True}], cannot_run="the state does not fit"), targets_met([{"met": True}], cannot_run=None)
    (False, True)
    """
    judgements = [check["met"] for check in checks]
    if cannot_run is not None or False in judgements:
        return False
    return None if None in judgements else True


class DescribedFigure(NamedTuple):
    """A figure with its label, in words and as a value."""

    label: str
    figure: str
    value: Any


def describe_figures(figures: Mapping[str, Any]) -> Iterator[DescribedFigure]:
    """Yield in words those of some figures that a list shows.

    >>> [figure[:2] for figure in describe_figures({"checkpoint.written_bytes": 13.8e12, "targets.met": False})]
    [('One checkpoint', '13.80 TB'), ('Targets', 'missed')]
    """
    for name, label in SHOWN.items():
        if name in figures:
            yield DescribedFigure(label, figure_text(name, figures[name]), figures[name])
    if TARGETS_MET in figures:
        yield DescribedFigure("Targets", _VERDICTS[figures[TARGETS_MET]], figures[TARGETS_MET])


def differ(one: Any, other: Any) -> bool:
    """Whether values of a figure differ by more than rounding.

    >>> differ(0.1 + 0.2, 0.3), differ(1, 2)
    (False, True)
    """
    if isinstance(one, float) and isinstance(other, float):
        return not math.isclose(one, other, rel_tol=_ROUNDING)
    return bool(one != other)
