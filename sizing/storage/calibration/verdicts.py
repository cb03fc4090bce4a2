"""What a fit says of each limit: measured, a lower bound, or unknown, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sizing.storage.calibration.calibration import LimitEstimate
from sizing.storage.calibration.candidates import Candidate, figures_of
from sizing.storage.calibration.explanation import Explanation
from sizing.storage.calibration.roofline import Array, Design, largest_shared, log_seconds
from sizing.storage.calibration.uncertainty import interval

MIN_BINDING = 3
"""Configurations in which a limit must bind to count as measured."""

MAX_RATIO_OF_A_TIME = 20.0
"""Of an interval's ends, from which on a time that adds up was not seen."""

_UNCHECKED = "as many limits as configurations, so no configuration checks it"
_ONE_SIZE = "all runs have one size, so it cannot be separated from the"


def limit_estimates(
    design: Design, explanation: Explanation, draws: Array, names: Sequence[Candidate], groups: Sequence[object]
) -> Iterator[LimitEstimate]:
    """The estimate of every limit that the measurements could show.

    Args: `draws` of the parameters, a row per draw; `names`, the candidate of each column; `groups`, the configuration
    of each measurement.
    """
    fit = _Fit(design, explanation, draws, names, is_checked=explanation.is_checked_by(len(set(groups))))
    _, binding = largest_shared(design, explanation.parameters)
    for column, name in enumerate(names):
        if not design.coefficients[:, column].any():
            continue
        if name.is_fraction:
            if fit.is_kept(column):
                yield _contention(fit, column)
        elif name.resource == "write-back-cache" and not fit.is_kept(column):
            continue
        elif name.is_shared:
            yield _rate(fit, column, num_binding=_num_binding(binding, column, groups))
        else:
            yield _time(fit, column)


@dataclass(frozen=True, slots=True)
class _Fit:
    """What the verdict on a column is read off."""

    design: Design
    explanation: Explanation
    draws: Array
    names: Sequence[Candidate]
    is_checked: bool

    def is_kept(self, column: int) -> bool:
        return bool(self.explanation.kept[column])

    def value(self, column: int) -> float:
        return float(figures_of(self.names, self.explanation.parameters)[self.names[column].field])

    def interval(self, column: int) -> tuple[float, float]:
        """Of the draws; where noise has moved nearly all of them to one side of the value, up to the value."""
        low, high = interval(figures_of(self.names, self.draws)[self.names[column].field])
        return min(low, self.value(column)), max(high, self.value(column))

    def rivals_without(self, column: int) -> list[Array]:
        """Explanations in which another limit stands for the column, or the column for another."""
        kept = self.explanation.kept[column]
        return [rival for rival in self.explanation.rivals if np.isfinite(rival[column]) != kept]


def _num_binding(binding: npt.NDArray[np.intp], column: int, groups: Sequence[object]) -> int:
    return len({group for group, slowest in zip(groups, binding, strict=True) if slowest == column})


def _rate(fit: _Fit, column: int, *, num_binding: int) -> LimitEstimate:
    """A shared resource: its rate where the data measure it, else the min that it can be."""
    name, doubt = fit.names[column], _doubt_about_rate(fit, column, num_binding=num_binding)
    return LimitEstimate(
        field=name.field,
        resource=name.resource,
        verdict="lower-bound" if doubt else "measured",
        value=min_rate(fit.design, fit.explanation, column) if doubt else fit.value(column),
        interval=None if doubt else fit.interval(column),
        num_binding=num_binding,
        reason=doubt or f"binds in {num_binding} configurations",
    )


def _doubt_about_rate(fit: _Fit, column: int, *, num_binding: int) -> str | None:
    """Why a rate is only known to be at least so much; None where it is measured."""
    if rivals := fit.rivals_without(column):
        return f"these runs cannot separate it from {' and '.join(_exchanged_for(fit, column, rivals))}"
    if not fit.is_kept(column):
        return "never reached: no run was limited by it"
    if fit.explanation.fixed_in_rates:
        return f"{_ONE_SIZE} fixed time, which it contains"
    if num_binding < MIN_BINDING:
        return f"binds in {num_binding} configuration(s), {MIN_BINDING} are required"
    return None if fit.is_checked else _UNCHECKED


def _exchanged_for(fit: _Fit, column: int, rivals: Sequence[Array]) -> list[str]:
    """The resources that rival explanations exchange with a column."""
    columns = {int(i) for rival in rivals for i in np.flatnonzero(np.isfinite(rival) != fit.explanation.kept)}
    return sorted({fit.names[i].resource for i in columns - {column}})


def _time(fit: _Fit, column: int) -> LimitEstimate:
    """A time that adds up: its value where an interval is narrow enough, and whether more than the fit shows it."""
    name = fit.names[column]
    low, high = fit.interval(column) if fit.is_kept(column) else (0.0, 0.0)
    is_narrow = high < MAX_RATIO_OF_A_TIME * low
    is_seen = fit.is_checked and is_narrow
    return LimitEstimate(
        field=name.field,
        resource=name.resource,
        verdict="measured" if is_seen else "unknown",
        value=fit.value(column) if is_narrow else None,
        interval=(low, high) if is_seen else None,
        num_binding=0,
        reason="adds to the time of every configuration"
        if is_seen
        else _doubt_about_time(fit, column, is_narrow=is_narrow),
    )


def _contention(fit: _Fit, column: int) -> LimitEstimate:
    """What further writers or nodes add to the time of the file system."""
    name = fit.names[column]
    low, high = fit.interval(column)
    is_seen = fit.is_checked and high < MAX_RATIO_OF_A_TIME * low
    unit = "writer" if name.field.startswith("writer") else "node"
    rivals = fit.rivals_without(column)
    other = (
        f". These runs cannot separate it from {' and '.join(_exchanged_for(fit, column, rivals))}" if rivals else ""
    )
    return LimitEstimate(
        field=name.field,
        resource=name.resource,
        verdict="measured" if is_seen and not rivals else "unknown",
        value=fit.value(column),
        interval=(low, high) if is_seen else None,
        num_binding=0,
        reason=f"each further {unit} adds to the file system's time of a byte{other}",
    )


def _doubt_about_time(fit: _Fit, column: int, *, is_narrow: bool) -> str:
    """Why a time that adds up is not known."""
    if is_narrow:
        return _UNCHECKED
    if fit.explanation.fixed_in_rates and fit.names[column].resource == "fixed":
        return f"{_ONE_SIZE} rates, which contain it"
    if column in fit.explanation.twins:
        return f"these runs cannot separate it from {fit.names[fit.explanation.twins[column]].resource}"
    return "smaller than the noise"


def min_rate(design: Design, explanation: Explanation, column: int) -> float:
    """The min rate of a shared resource at which no explanation of the data would look different.

    Its term is nowhere longer than the slowest one S_i, so the rate is at least max over i of c_ij / S_i; of rival
    explanations the one with the min. Of a resource that is in none of them only the whole time T_i is sure to be
    longer, as it may stand in what they take for time that adds up.
    Args: `column` j of the coefficients c.
    Source: definition of `transfer.transfer_seconds`.

    >>> bytes_and_parts = Design(np.array([[4.0, 4.0], [8.0, 2.0]]), np.array([True, True]))
    >>> by_nodes = Explanation(np.array([-np.inf, 0.0]), 0.05, (), {})  # 4 s and 2 s, by the second alone
    >>> round(min_rate(bytes_and_parts, by_nodes, 0), 6)
    4.0
    """
    if not any(np.isfinite(parameters[column]) for parameters in (explanation.parameters, *explanation.rivals)):
        return float((design.coefficients[:, column] / np.exp(log_seconds(design, explanation.parameters)[0])).max())
    bounds = []
    for parameters in (explanation.parameters, *explanation.rivals):
        slowest, _ = largest_shared(design, parameters)
        bounds.append(float((design.coefficients[:, column] / slowest).max()))
    return min(bounds)
