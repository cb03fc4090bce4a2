"""What a calibration is worth, from A to D, and what keeps it from more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import get_args

from sizing.storage.calibration.calibration import DirectionFit, Grade
from sizing.storage.rates import Direction
from sizing.units import percent_text

GRADES: tuple[tuple[Grade, float, int, int], ...] = (("A", 0.05, 2, 12), ("B", 0.10, 1, 8), ("C", 0.25, 0, 4))
"""Grade, max held-out error, min measured shared limits, min configurations; the first that fits."""
MAX_FRONTIER_ERRORS: dict[Grade, float] = {"A": 0.10, "B": 0.10, "C": 0.25, "D": float("inf")}
"""Of the worst prediction for a largest configuration: the max of many, so no grade asks for less than 10 %."""

_ORDER: tuple[Grade, ...] = get_args(Grade)


def grade_of(fits: Mapping[Direction, DirectionFit], *, doubts: Sequence[str]) -> tuple[Grade, tuple[str, ...]]:
    """The grade of the worse of the fits to writes and to reads, and what keeps it below A.

    A: held-out error up to 5 %, two shared limits measured, 12 configurations. B: 10 %, one, 8. C: 25 %, none, 4. The
    worst miss of a frontier is up to 10 % for A and B and 25 % for C. Where the model is wrong somewhere it is C at
    most; mixed or stale runs and a single size cost one.
    """
    asked = [(grade, f"{direction}s: {reason}") for direction, fit in fits.items() for grade, reason in _asked(fit)]
    place = max(_ORDER.index(grade) for grade, _ in asked)
    reasons = sorted((each for each in asked if each[0] != "A"), key=lambda each: -_ORDER.index(each[0]))
    place = min(place + bool(doubts), len(_ORDER) - 1)
    return _ORDER[place], (*dict.fromkeys(reason for _, reason in reasons), *doubts)


def _asked(fit: DirectionFit) -> Iterator[tuple[Grade, str]]:
    """Each thing that keeps a fit from A: the best grade with it, and a sentence."""
    measured = sum(limit.verdict == "measured" and limit.num_binding > 0 for limit in fit.limits)
    error = fit.held_out_error_fraction
    _, max_error, min_measured, min_configurations = GRADES[0]
    yield (
        _first(lambda row: error <= row[1]),
        f"median error on held-out configurations {percent_text(error)}, max {percent_text(max_error)} for A",
    )
    yield _first(lambda row: measured >= row[2]), f"{measured} shared limit(s) measured, min {min_measured} for A"
    yield (
        _first(lambda row: fit.num_configurations >= row[3]),
        f"{fit.num_configurations} configurations, min {min_configurations} for A",
    )
    for frontier in fit.frontiers:
        worst = frontier.worst_error_fraction
        grade = next(grade for grade in _ORDER if worst <= MAX_FRONTIER_ERRORS[grade])
        most = percent_text(MAX_FRONTIER_ERRORS["A"])
        yield grade, f"largest {frontier.axis} left out: predicted up to {percent_text(worst)} off, max {most} for A"
    if fit.wrong_here:
        worst_here = fit.wrong_here[0]
        way = "slower" if worst_here.miss_fraction > 0 else "faster"
        yield (
            "C",
            f"the model is wrong in {len(fit.wrong_here)} configuration(s), at worst "
            f"{percent_text(abs(worst_here.miss_fraction))} {way} than predicted",
        )


def _first(fits: Callable[[tuple[Grade, float, int, int]], bool]) -> Grade:
    return next((row[0] for row in GRADES if fits(row)), "D")
