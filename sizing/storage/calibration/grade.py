"""What a calibration is worth, from A to D."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sizing.storage.calibration.calibration import DirectionFit, Grade

GRADES: tuple[tuple[Grade, float, int, int], ...] = (("A", 0.05, 2, 12), ("B", 0.10, 1, 8), ("C", 0.25, 0, 4))
"""Grade, max held-out error, min measured shared limits, min configurations; the first that fits."""


def grade_of(fits: Iterable[DirectionFit], *, doubts: Sequence[str]) -> Grade:
    """The grade of the worse of the fits to writes and to reads; mixed or stale runs and a single size cost one.

    A: held-out error up to 5 %, two shared limits measured, 12 configurations. B: 10 %, one, 8. C: 25 %, none, 4.
    """
    grades: list[Grade] = ["A", "B", "C", "D"]
    place = max(grades.index(_earned(fit)) for fit in fits)
    return grades[min(place + bool(doubts), len(grades) - 1)]


def _earned(fit: DirectionFit) -> Grade:
    measured = sum(limit.verdict == "measured" and limit.num_binding > 0 for limit in fit.limits)
    earned = (
        grade
        for grade, error, limits, configurations in GRADES
        if fit.held_out_error_fraction <= error and measured >= limits and fit.num_configurations >= configurations
    )
    return next(earned, "D")
