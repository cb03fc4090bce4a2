"""A calibration in words: how good it is, its limits with their intervals, and what to know before believing it."""

from __future__ import annotations

from sizing.storage.calibration import Calibration
from sizing.storage.calibration.calibration import DirectionFit, LimitEstimate
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.summary.rows import UNKNOWN, Grid, Summary
from sizing.units import counted_text, figure_text, percent_text

_COLUMNS = ("limit", "is", "90 % interval", "verdict", "because")
_TITLES: dict[Direction, str] = {"write": "Limits of writes", "read": "Limits of restores"}


def calibration_summary(calibration: Calibration) -> Summary:
    """Grade and its reasons, and a table of limits for writes and for restores."""
    fits = [(direction, fit) for direction in DIRECTIONS if (fit := calibration.fit(direction)) is not None]
    runs = counted_text(len(calibration.run_ids), "run")
    reasons = [f"Not better because: {reason}." for reason in calibration.grade_reasons]
    return Summary(
        headline=f"Grade {calibration.grade}: engine {calibration.engine}, {runs}",
        grids=tuple(_limits(direction, fit) for direction, fit in fits),
        remarks=tuple(_errors(direction, fit) for direction, fit in fits),
        warnings=(*reasons, *calibration.warnings),
    )


def _limits(direction: Direction, fit: DirectionFit) -> Grid:
    return Grid(_TITLES[direction], _COLUMNS, tuple(_cells(limit) for limit in fit.limits))


def _cells(limit: LimitEstimate) -> tuple[str, ...]:
    value = UNKNOWN if limit.value is None else figure_text(limit.field, limit.value)
    interval = "-" if limit.interval is None else " to ".join(figure_text(limit.field, end) for end in limit.interval)
    return limit.resource, value, interval, limit.verdict.replace("-", " "), limit.reason


def _errors(direction: Direction, fit: DirectionFit) -> str:
    """How far predictions of configurations miss that the fit has not seen."""
    median, worst = percent_text(fit.held_out_error_fraction), percent_text(fit.worst_held_out_error_fraction)
    configurations = counted_text(fit.num_configurations, "configuration")
    return f"{_TITLES[direction]}: {configurations}, error on those held out {median} (median), {worst} (max)."
