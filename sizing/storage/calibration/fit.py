"""One direction fitted: limits with verdicts, errors, draws, and every measurement with its prediction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.calibration.calibration import (
    Covered,
    DirectionFit,
    FittedPoint,
    Frontier,
    LimitEstimate,
    WrongHere,
)
from sizing.storage.calibration.fit_data import FitData, unlike_pairs
from sizing.storage.calibration.lack_of_fit import LackOfFit, find_lack_of_fit, local_noise
from sizing.storage.calibration.least_squares import (
    MAX_RATE_OVER_SEEN,
    SHARP,
    Design,
    Mask,
    largest_shared,
    log_seconds,
)
from sizing.storage.calibration.limit_shape import (
    ALL_TERMS,
    FILE_SYSTEM,
    PLAIN_TERMS,
    LimitShape,
    column_of,
    contending_units,
    fitted_rates,
    select_shape,
)
from sizing.storage.calibration.stragglers import find_stragglers
from sizing.storage.calibration.term_selection import MAX_OVER_SEEN, TermSelection, select_terms
from sizing.storage.calibration.uncertainty import (
    HeldOutFrontier,
    bootstrap,
    frontier_masks,
    interval,
    max_contentions,
    predict_frontiers,
    predict_held_out,
    run_effects,
    student_quantile,
)
from sizing.storage.rates import Direction, Rates, document_name
from sizing.storage.terms import Demand, total_seconds
from sizing.storage.transfer import Floats

MIN_BINDING = 3
"""Configurations in which a limit must bind to count as measured."""

MAX_RATIO_OF_A_TIME = 20.0
"""Ratio of an interval's ends from which on a time that adds up was not seen."""

_MIN_SHARE_OF_A_TIME = 1e-3
"""Share of every time below which a term is left out of the profile: three digits are shown."""

_KEPT_DRAWS = 200
"""Number of draws in the document: the ends of a prediction's interval rest on the outer 10, and it takes 20 kB."""
_DIGITS = 5
"""Significant digits of a draw in the document; intervals are shown with three."""

_UNCHECKED = "as many limits as configurations, so no configuration checks it"
_ONLY_LARGEST = "only the largest runs show"
_LATE = "where it binds, the others waited for a straggler, without which the storage may give more"
_IN_RATES = "so it cannot be separated from the"


def fit_direction(data: FitData, *, num_draws: int, seed: int) -> DirectionFit:
    """Fit the limits of one direction to its measurements.

    First the shape of the limits is chosen, then the terms that the measurements need. The draws, the errors for
    configurations left out and the verdict on each limit all come from that one fit.
    """
    direction, demand, measured = data.direction, data.demand, data.log_seconds
    groups = [row.configuration for row in data.rows]
    shape = select_shape(demand, measured, repetition_noise=data.repetition_noise)
    design = shape.design
    selection = select_terms(design, measured, repetition_noise=data.repetition_noise)
    rates = profile_rates(design, selection) | _choose_rates(shape, demand, selection)
    predicted = np.log(total_seconds(Rates(**rates), [demand]))
    runs = [row.run_id for row in data.rows]
    draws = bootstrap(design, measured, selection, num_draws=num_draws, seed=seed, runs=runs)
    effects = run_effects(measured - predicted, runs)[1]
    held_out = predict_held_out(design, measured, selection, groups)
    errors = np.abs(np.expm1(held_out - measured))
    misses = _misses(data, measured - predicted, selection)
    believed = predicted.copy()
    believed[[miss.row for miss in misses]] = measured[[miss.row for miss in misses]]
    frontiers = list(predict_frontiers(design, measured, selection, demand, groups))
    only_largest = np.logical_or.reduce([found.unseen for found in frontiers] or [np.zeros(len(ALL_TERMS), dtype=bool)])
    stragglers = list(find_stragglers(data.rows))
    is_late = np.isin(np.arange(len(data.rows)), [row for found in stragglers for row in found.rows])
    fit = LimitFit(design, measured, selection, draws, direction, groups, rates, only_largest, is_late)
    return DirectionFit(
        limits=tuple(estimate_limits(fit)),
        covered=Covered.of(demand),
        num_configurations=data.num_configurations,
        noise_fraction=selection.noise,
        run_error_fraction=max(
            0.0,
            student_quantile(len(effects) - 1) * float((effects @ effects / max(len(effects) - 1, 1)) ** 0.5),
            *(float(np.log(slow.seconds / fast.seconds)) for slow, fast in unlike_pairs(data.rows)),
        ),
        held_out_error_fraction=float(np.median(errors)),
        worst_held_out_error_fraction=float(errors.max()),
        frontiers=tuple(_frontier(found, direction, groups, measured, believed) for found in frontiers),
        wrong_here=tuple(
            WrongHere(
                num_nodes=data.rows[miss.row].measurement.num_nodes,
                num_streams=data.rows[miss.row].measurement.num_ranks,
                total_bytes=data.rows[miss.row].measurement.total_bytes,
                miss_fraction=float(np.expm1(miss.log_miss)),
                reason=miss.reason,
            )
            for miss in misses
        ),
        chosen=Rates(**_choose_rates(shape, demand, selection)).document(direction),
        not_excluded=_not_excluded(design, measured, selection, demand, direction),
        draws={
            document_name(name, direction): tuple(float(f"{value:.{_DIGITS}g}") for value in values[:_KEPT_DRAWS])
            for name, values in fitted_rates(draws).items()
        },
        rivals=tuple(_document(rival, direction) for rival in selection.rivals),
        stragglers=tuple(found.sentence for found in stragglers),
        points=tuple(
            FittedPoint(
                run_id=row.run_id,
                num_nodes=row.measurement.num_nodes,
                num_streams=row.measurement.num_ranks,
                total_bytes=row.measurement.total_bytes,
                num_files=row.num_files,
                seconds=row.seconds,
                predicted_seconds=float(seconds),
                held_out_seconds=float(held_out_seconds),
            )
            for row, seconds, held_out_seconds in zip(data.rows, np.exp(predicted), np.exp(held_out), strict=True)
        ),
    )


def _misses(data: FitData, log_misses: Floats, selection: TermSelection) -> list[LackOfFit]:
    """Where the model is wrong, the worst miss first."""
    frontier = np.logical_or.reduce([np.zeros(len(log_misses), bool), *frontier_masks(data.demand).values()])
    places = [
        (nodes, ranks / nodes, size, files / ranks, stripes)
        for nodes, ranks, size, files, stripes in (row.configuration for row in data.rows)
    ]
    noise = local_noise(log_misses, noise=selection.noise, repetition_noise=data.repetition_noise, places=places)
    num_parameters = int(selection.kept.sum())
    found = find_lack_of_fit(log_misses, noise=noise, num_parameters=num_parameters, places=places, frontier=frontier)
    return sorted(found, key=lambda miss: -abs(miss.log_miss))


def _frontier(
    found: HeldOutFrontier,
    direction: Direction,
    groups: Sequence[object],
    measured: Floats,
    believed: Floats,
) -> Frontier:
    """Args: `believed`, log seconds without the noise of one measurement: of the fit, measured where that is wrong."""
    errors, misses = (np.abs(np.expm1(found.log_seconds - times))[found.rows] for times in (believed, measured))
    return Frontier(
        axis=found.axis,
        num_configurations=len({group for group, is_out in zip(groups, found.rows, strict=True) if is_out}),
        worst_error_fraction=float(errors.max()),
        worst_measured_error_fraction=float(misses.max()),
        only_here=tuple(
            document_name(ALL_TERMS[int(column)].field, direction) for column in np.flatnonzero(found.unseen)
        ),
    )


def profile_rates(design: Design, selection: TermSelection) -> dict[str, float]:
    """The limits that predictions compute with, by their fields in `Rates`.

    Those of the fit, but for times too short to be seen. With a sharp knee also those that rivals have in place of
    them, each at the min rate at which it nowhere takes longer than the slowest: no measured configuration takes
    longer with it, and what lies beyond is predicted by the slowest of all explanations. With a soft knee it would
    slow down everything, and stands in the interval alone.
    """
    figures = fitted_rates(selection.parameters)
    shares = log_seconds(design, selection.parameters)[1].max(axis=0)
    rates = {
        term.field: float(figures[term.field])
        for column, term in enumerate(ALL_TERMS)
        if term.field in figures and (term.is_shared or shares[column] >= _MIN_SHARE_OF_A_TIME)
    }
    if design.squarings != SHARP:
        return rates
    slowest, _ = largest_shared(design, selection.parameters)
    for column, term in enumerate(PLAIN_TERMS):
        if term.is_shared and term.field not in rates and selection.has_rival_with(column):
            rates[term.field] = float((design.coefficients[:, column] / slowest).max())
    return rates


def _choose_rates(shape: LimitShape, demand: Demand, selection: TermSelection) -> dict[str, float]:
    """The knee, the size of the cache where its rate was kept, and the stripes where they limit.

    Predictions take the max of stripes that were measured, as whoever sets stripes would.
    """
    stripe, cache = column_of("stripe_bytes_per_second"), column_of("beyond_cache_bytes_per_second")
    chosen = {}
    if shape.knee_power is not None:
        chosen["knee_power"] = shape.knee_power
    if shape.cache_bytes is not None and selection.kept[cache]:
        chosen["cache_bytes"] = float(round(shape.cache_bytes))
    if demand.num_stripes is not None and (selection.kept[stripe] or selection.has_rival_with(stripe)):
        chosen["stripe_count"] = float(np.max(demand.num_stripes))
    return chosen


def _not_excluded(
    design: Design, measured: Floats, selection: TermSelection, demand: Demand, direction: Direction
) -> tuple[dict[str, float], ...]:
    """The limits with the max contention of each kind that the data allow where they show none."""
    fields = [document_name(term.field, direction) for term in ALL_TERMS if term.is_fraction]
    return tuple(
        _document(parameters, direction) | {fields[column]: fraction}
        for column, fraction, parameters in max_contentions(design, measured, selection, contending_units(demand))
        if fraction > 0
    )


def _document(parameters: Floats, direction: Direction) -> dict[str, float]:
    """The limits that parameters stand for, by their fields in a StorageProfile."""
    return {document_name(name, direction): float(value) for name, value in fitted_rates(parameters).items()}


@dataclass(frozen=True, slots=True)
class LimitFit:
    """What the verdict on each limit is read off.

    `draws` has the parameters of each bootstrap draw, `groups` the configuration of each measurement, `rates` what
    the profile computes with, by the fields of `Rates`, `only_largest` the terms that a frontier alone shows, and
    `is_late` the measurements that waited for a straggler.
    """

    design: Design
    measured: Floats
    selection: TermSelection
    draws: Floats
    direction: Direction
    groups: Sequence[object]
    rates: Mapping[str, float]
    only_largest: Mask
    is_late: Mask

    @property
    def is_checked(self) -> bool:
        """Whether there are more configurations than terms."""
        return self.selection.is_checked_by(len(set(self.groups)))

    def is_kept(self, column: int) -> bool:
        """Whether the data need the term."""
        return bool(self.selection.kept[column])

    def value(self, column: int) -> float:
        """The fitted value of the term's field."""
        return float(fitted_rates(self.selection.parameters)[ALL_TERMS[column].field])

    def interval(self, column: int) -> tuple[float, float]:
        """Interval of the draws; where noise has moved nearly all of them to one side of the value, up to the value."""
        low, high = interval(fitted_rates(self.draws)[ALL_TERMS[column].field])
        return min(low, self.value(column)), max(high, self.value(column))

    def exchanged_for(self, column: int) -> str:
        """The resources that rival explanations exchange with the column, in words; empty where none does."""
        kept = self.selection.kept
        rivals = [rival for rival in self.selection.rivals if np.isfinite(rival[column]) != kept[column]]
        columns = {int(i) for rival in rivals for i in np.flatnonzero(np.isfinite(rival) != kept)} - {column}
        return " and ".join(sorted({ALL_TERMS[i].resource for i in columns}))

    def is_beyond_what_was_seen(self, column: int) -> bool:
        """Whether the fitted rate is far above the highest that any run got of the resource.

        Where contention, or a soft knee, is part of every time, a rate of its own is never seen: only at the max that
        a fit may say of it nothing is known.
        """
        is_plain = self.design.squarings == SHARP and not self.contentions(column)
        most = MAX_OVER_SEEN if is_plain else MAX_RATE_OVER_SEEN * (1 - _MIN_SHARE_OF_A_TIME)
        return self.value(column) > most * min_rate(self.design, self.measured, column)

    def waits_for_stragglers(self, column: int) -> bool:
        """Whether a straggler decided a time in which the limit binds: the storage may give more."""
        return bool((self.is_late & (largest_shared(self.design, self.selection.parameters)[1] == column)).any())

    def contentions(self, column: int) -> list[int]:
        """The kept columns that add to the time of a resource."""
        owners = self.design.added_to or range(self.design.num_terms)
        return [j for j, owner in enumerate(owners) if owner == column and j != column and self.is_kept(j)]


def estimate_limits(fit: LimitFit) -> Iterator[LimitEstimate]:
    """Estimate every limit that the measurements could show: measured, a lower bound, or unknown, with the reason."""
    _, binding = largest_shared(fit.design, fit.selection.parameters)
    for column, term in enumerate(ALL_TERMS):
        if not fit.design.coefficients[:, column].any():
            continue
        if term.is_fraction:
            if fit.is_kept(column):
                yield _contention(fit, column)
        elif term.unit == "cache" and not fit.is_kept(column):
            continue
        elif term.is_shared:
            bound = {group for group, slowest in zip(fit.groups, binding, strict=True) if slowest == column}
            yield _rate(fit, column, num_binding=len(bound))
        else:
            yield _time(fit, column)


def _rate(fit: LimitFit, column: int, *, num_binding: int) -> LimitEstimate:
    """A shared resource: its rate where the data measure it, else the highest that it was seen to give."""
    doubt = None
    if exchanged := fit.exchanged_for(column):
        doubt = f"these runs cannot separate it from {exchanged}"
    elif not fit.is_kept(column):
        doubt = "never reached: no run was limited by it"
    elif fit.waits_for_stragglers(column):
        doubt = _LATE
    elif fit.is_beyond_what_was_seen(column):
        doubt = "no run came near the rate that fits best"
    elif fit.only_largest[fit.contentions(column)].any():
        doubt = f"{_ONLY_LARGEST} what adds to its time"
    elif fit.selection.fixed_in_rates:
        doubt = f"{fit.selection.fixed_in_rates}, {_IN_RATES} fixed time, which it contains"
    elif num_binding < MIN_BINDING:
        doubt = f"binds in {num_binding} configuration(s), {MIN_BINDING} are required"
    elif not fit.is_checked:
        doubt = _UNCHECKED
    seen = min_rate(fit.design, fit.measured, column)
    field = ALL_TERMS[column].field
    return LimitEstimate(
        field=document_name(field, fit.direction),
        resource=ALL_TERMS[column].resource,
        verdict="lower-bound" if doubt else "measured",
        value=min(seen, fit.rates.get(field, seen)) if doubt else fit.value(column),
        profile_value=fit.rates.get(field),
        interval=None if doubt else fit.interval(column),
        num_binding=num_binding,
        reason=doubt or f"binds in {num_binding} configurations",
    )


def _time(fit: LimitFit, column: int) -> LimitEstimate:
    """A time that adds up: its value where the profile has it, and whether more than the fit shows it."""
    term, twins = ALL_TERMS[column], fit.selection.twins
    low, high = fit.interval(column) if fit.is_kept(column) else (0.0, 0.0)
    is_narrow = high < MAX_RATIO_OF_A_TIME * low
    is_seen = fit.is_checked and is_narrow and not fit.is_late.any()
    if is_seen:
        reason = "adds to the time of every configuration"
    elif is_narrow and fit.is_late.any():
        reason = "a straggler decided some of the times, which it adds to"
    elif is_narrow:
        reason = _UNCHECKED
    elif fit.selection.fixed_in_rates and term.resource == "fixed":
        reason = f"{fit.selection.fixed_in_rates}, {_IN_RATES} rates, which contain it"
    elif column in twins:
        reason = f"these runs cannot separate it from {ALL_TERMS[twins[column]].resource}"
    else:
        reason = "smaller than the noise"
    return LimitEstimate(
        field=document_name(term.field, fit.direction),
        resource=term.resource,
        verdict="measured" if is_seen else "unknown",
        value=fit.rates.get(term.field),
        profile_value=fit.rates.get(term.field),
        interval=(low, high) if is_seen else None,
        num_binding=0,
        reason=reason,
    )


def _contention(fit: LimitFit, column: int) -> LimitEstimate:
    """What further writers or nodes add to the time of the file system."""
    term, exchanged = ALL_TERMS[column], fit.exchanged_for(column)
    low, high = fit.interval(column)
    is_seen = fit.is_checked and high < MAX_RATIO_OF_A_TIME * low
    unit = "writer" if term.unit == "stream" else "node"
    other = f". These runs cannot separate it from {exchanged}" if exchanged else ""
    if fit.is_beyond_what_was_seen(FILE_SYSTEM):
        is_seen, other = False, f"{other}. No run shows the file system without it"
    elif fit.waits_for_stragglers(FILE_SYSTEM):
        is_seen, other = False, f"{other}. {_LATE.capitalize()}"
    elif fit.only_largest[column]:
        is_seen, other = False, f"{other}. {_ONLY_LARGEST.capitalize()} it"
    return LimitEstimate(
        field=document_name(term.field, fit.direction),
        resource=term.resource,
        verdict="measured" if is_seen and not exchanged else "unknown",
        value=fit.value(column),
        profile_value=fit.rates.get(term.field),
        interval=(low, high) if is_seen else None,
        num_binding=0,
        reason=f"each further {unit} adds to the file system's time of a byte{other}",
    )


def min_rate(design: Design, measured: Floats, column: int) -> float:
    """The min rate of a shared resource: the highest that a run got of it.

    No part of a transfer takes longer than the whole, so the rate is at least max over i of c_ij / T_i.
    Args: `measured`, log of the seconds T_i; `column` j of the coefficients c.
    Source: definition of `transfer.transfer_seconds`.

    >>> bytes_moved = Design(np.array([[4.0], [8.0]]), np.array([True]))
    >>> round(min_rate(bytes_moved, np.log([2.0, 5.0]), 0), 6)
    2.0
    """
    return float((design.coefficients[:, column] / np.exp(measured)).max())
