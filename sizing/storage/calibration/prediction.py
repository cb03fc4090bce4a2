"""What a calibration says of a save or a restore: seconds, an interval, and whether it was measured so far out."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizing.storage.calibration.calibration import (
    INTERVAL_TAIL,
    MAX_USEFUL_RATIO,
    NORMAL_QUANTILE,
    Calibration,
    DirectionFit,
    WrongHere,
)
from sizing.storage.calibration.least_squares import MAX_RATE_OVER_SEEN
from sizing.storage.calibration.uncertainty import student_quantile
from sizing.storage.rates import Direction, Rates
from sizing.storage.terms import Demand, shared_terms, total_seconds
from sizing.storage.transfer import Floats, Numbers

MIN_ERROR_FRACTION = 0.02
"""Error per doubling beyond what was measured, where the held-out error is smaller still."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of a measurement as it would be made, with the interval that holds nine of ten.

    `extrapolated` names what lies outside the measured range.
    """

    seconds: Numbers
    low_seconds: Numbers
    high_seconds: Numbers
    extrapolated: tuple[str, ...]

    @property
    def is_useful(self) -> bool:
        """Whether the interval, of numbers alone, is narrow enough to decide by."""
        return self.ratio <= MAX_USEFUL_RATIO

    @property
    def ratio(self) -> float:
        """Ratio of the ends of the interval, of numbers alone."""
        return float(self.high_seconds) / float(self.low_seconds)

    def ends_seconds(self, *, also: float = 0.0) -> tuple[float, float]:
        """The ends of the interval, of numbers alone, and `also` seconds that the calibration says nothing of."""
        return float(self.low_seconds) + also, float(self.high_seconds) + also


def predict(calibration: Calibration, demands: Sequence[Demand], *, direction: Direction) -> Prediction | None:
    """The prediction for demands one after the other, or None where the direction was not calibrated.

    The interval has the bootstrap draws of the limits, the noise of measurements, and one held-out error for each
    doubling beyond the measured range of each figure, added as independent errors of log time. Its lower end also
    holds for every rival explanation, and for each further node bringing as much as the others where the most nodes
    alone show some limit; no resource gives more than MAX_RATE_OVER_SEEN times what a run got of it. Its upper end
    holds for limits that were never reached and may begin right beyond what was seen, and for contention that the data
    do not exclude. Where the model is wrong its side of the interval is wider by the miss. Demands may hold arrays that
    broadcast together.
    """
    fit = calibration.fit(direction)
    return None if fit is None else predict_by_fit(fit, calibration.profile.rates(direction), demands, direction)


def predict_by_fit(fit: DirectionFit, rates: Rates, demands: Sequence[Demand], direction: Direction) -> Prediction:
    """The prediction by a fit, as `predict` has it. Args: `rates`, what the profile has of the direction."""
    known = rates.document(direction)
    seconds = total_seconds(rates, demands)
    num_axes = max(np.ndim(demand.total_bytes + demand.num_streams + demand.num_nodes) for demand in demands)
    draws = {field: np.reshape(values, (-1, *[1] * num_axes)) for field, values in fit.draws.items()}
    drawn = Rates.of_document({**known, **draws}, direction)
    centre, low, high = _drawn_log_seconds(drawn, demands)
    explained = [Rates.of_document(reading, direction) for reading in _readings(fit, known)]
    readings = [total_seconds(reading, demands) for reading in explained]
    shortest = functools.reduce(np.minimum, [*readings, *_weakly_scaled_seconds(fit, rates, demands)], seconds)
    longest = functools.reduce(np.maximum, readings, seconds)
    contended = _contended_log_seconds(fit, demands, direction, seconds)
    unseen = _unseen_seconds(fit, rates, direction, demands)
    spread = _noise_variance(fit) + NORMAL_QUANTILE**2 * _extrapolation_variance(fit, demands)
    slower, faster = _misses(fit, demands)
    low_seconds = shortest * np.exp(-np.sqrt((centre - low) ** 2 + spread) - faster)
    of_storage = (replace(demand.even, process_bytes_per_second=None) for demand in demands)
    terms = [shared_terms(fastest_rates(fit, explained), demand).values() for demand in of_storage]
    fastest = sum((functools.reduce(np.maximum, of_step) for of_step in terms), start=np.float64(0.0))
    outside = (name for demand in demands for name, by in _doublings(fit, demand).items() if np.any(by > 0))
    return Prediction(
        seconds=seconds,
        low_seconds=np.maximum(low_seconds, np.where(fastest <= shortest, fastest, 0.0)),
        high_seconds=np.maximum(unseen, longest)
        * np.exp(np.sqrt(np.maximum(high - centre, contended) ** 2 + spread) + slower),
        extrapolated=tuple(dict.fromkeys(outside)),
    )


def _noise_variance(fit: DirectionFit) -> float:
    """Variance of log seconds at the ends of an interval: Student's t of the noise, which few data have estimated.

    A run on another day is not taken to be closer than MIN_ERROR_FRACTION, however calm the storage was in one scan,
    nor closer than runs were to each other.
    """
    noise = student_quantile(fit.degrees_of_freedom) * max(fit.noise_fraction, MIN_ERROR_FRACTION)
    return max(noise, fit.run_error_fraction) ** 2


def _contended_log_seconds(
    fit: DirectionFit, demands: Sequence[Demand], direction: Direction, seconds: Numbers
) -> Numbers:
    """Extra log seconds that the max contention takes that the data allow."""
    found = (
        np.log(total_seconds(Rates.of_document({**fit.chosen, **reading}, direction), demands) / seconds)
        for reading in fit.not_excluded
    )
    longest: Numbers = functools.reduce(np.maximum, found, np.zeros(()))
    return longest


def _misses(fit: DirectionFit, demands: Sequence[Demand]) -> tuple[Numbers, Numbers]:
    """What the interval is wider where the model is wrong, in log seconds: towards slower, towards faster.

    At and beyond such a configuration its miss, which fades to nothing where all of nodes, ranks and bytes together
    are a doubling less, and which grows by itself with each doubling beyond what was measured: a miss that has come
    up within the last doubling goes on so.
    """
    slower, faster = np.float64(0.0), np.float64(0.0)
    for found, demand in itertools.product(fit.wrong_here, demands):
        miss = np.log1p(found.miss_fraction)
        reach = abs(miss) * _nearness(found, demand) * (1.0 + _beyond(fit, demand))
        slower, faster = (np.maximum(slower, reach), faster) if miss > 0 else (slower, np.maximum(faster, reach))
    return slower, faster


def _nearness(found: WrongHere, demand: Demand) -> Numbers:
    """1 at and beyond a configuration, 0 a doubling before it."""
    pairs = (
        (found.num_nodes, demand.num_nodes),
        (found.num_streams, demand.num_streams),
        (found.total_bytes, demand.total_bytes),
    )
    before = sum((np.maximum(0.0, np.log2(np.divide(there, here))) for there, here in pairs), start=np.float64(0.0))
    return np.maximum(0.0, 1.0 - before)


def _beyond(fit: DirectionFit, demand: Demand) -> Numbers:
    """Doublings of the one of nodes, ranks and bytes that is farthest beyond what was measured."""
    largest = (
        (max(point.num_nodes for point in fit.points), demand.num_nodes),
        (max(point.num_streams for point in fit.points), demand.num_streams),
        (max(point.total_bytes for point in fit.points), demand.total_bytes),
    )
    doublings = (np.log2(np.divide(here, there)) for there, here in largest)
    farthest: Numbers = functools.reduce(np.maximum, doublings, np.zeros(()))
    return farthest


def _drawn_log_seconds(rates: Rates, demands: Sequence[Demand]) -> tuple[Floats, Floats, Floats]:
    """Median and interval ends of log seconds over the draws, which are the first axis of the rates."""
    logs = np.sort(np.log(total_seconds(rates, demands)), axis=0)
    places = np.array([0.5, INTERVAL_TAIL, 1 - INTERVAL_TAIL]) * (len(logs) - 1)
    centre, low, high = logs[np.rint(places).astype(int)]
    return centre, low, high


def _readings(fit: DirectionFit, known: Mapping[str, Numbers]) -> Iterator[Mapping[str, Numbers]]:
    """Every set of limits that explains the data: the one that was kept, and its rivals.

    Args: `known`, the limits of the profile by field, which may have those of rivals too.
    """
    yield fit.chosen | {field: known[field] for field in fit.draws if field in known}
    yield from (fit.chosen | rival for rival in fit.rivals)


def _weakly_scaled_seconds(fit: DirectionFit, rates: Rates, demands: Sequence[Demand]) -> Iterator[Numbers]:
    """What the same load of each node takes on the most nodes measured, where only these show some limit.

    A file system that limits at one number of nodes may as well be a switch that so many share, or a slow node among
    them: each further node would then bring as much as these did.
    """
    if _scales_weakly(fit):
        yield total_seconds(rates, [_on_nodes(demand, fit.covered.num_nodes[1]) for demand in demands])


def _scales_weakly(fit: DirectionFit) -> bool:
    """Whether the runs with the most nodes alone show some limit."""
    return any(frontier.axis == "nodes" and frontier.only_here for frontier in fit.frontiers)


def fastest_rates(fit: DirectionFit, explained: Sequence[Rates]) -> Rates:
    """Find MAX_RATE_OVER_SEEN times the highest rates that a run got of streams, nodes and file system.

    The file system counts where every explanation has its limit, and not only the runs with the most nodes show one:
    else each further node may bring as much as the others.
    """
    of_units = [
        (point.bytes_per_second / point.num_streams, point.bytes_per_second / point.num_nodes, point.bytes_per_second)
        for point in fit.points
    ]
    stream, node, file_system = MAX_RATE_OVER_SEEN * np.max(of_units, axis=0)
    fastest = Rates(writer_bytes_per_second=stream, node_bytes_per_second=node)
    if all(rates.file_system_bytes_per_second is not None for rates in explained) and not _scales_weakly(fit):
        fastest = fastest._replace(file_system_bytes_per_second=file_system)
    return fastest


def _on_nodes(demand: Demand, most_nodes: float) -> Demand:
    """The demand of at most so many of its nodes."""
    part = np.minimum(1.0, np.divide(most_nodes, demand.num_nodes))
    return replace(
        demand,
        total_bytes=demand.total_bytes * part,
        num_streams=demand.num_streams * part,
        num_nodes=demand.num_nodes * part,
        num_files=demand.num_files * part,
        num_planned_ranks=demand.num_planned_ranks * part,
    )


def _unseen_seconds(fit: DirectionFit, known: Rates, direction: Direction, demands: Sequence[Demand]) -> Numbers:
    """What limits that were never reached would take alone, each at its min."""
    fields = known.document(direction)
    bounds = {
        limit.field: limit.value
        for limit in fit.limits
        if limit.verdict == "lower-bound" and limit.value is not None and limit.field not in fields
    }
    rates = Rates.of_document(bounds, direction)
    of_storage = (replace(demand, process_bytes_per_second=None) for demand in demands)
    steps = [shared_terms(rates, demand).values() for demand in of_storage]
    return sum((functools.reduce(np.maximum, terms) for terms in steps if terms), start=np.float64(0.0))


def _extrapolation_variance(fit: DirectionFit, demands: Sequence[Demand]) -> Numbers:
    """Variance of log seconds by distance from what was measured: one error per doubling of each figure."""
    error = max(fit.held_out_error_fraction, fit.noise_fraction, MIN_ERROR_FRACTION)
    distances = [sum((by**2 for by in _doublings(fit, demand).values()), start=np.float64(0.0)) for demand in demands]
    farthest: Numbers = functools.reduce(np.maximum, distances)
    return error**2 * farthest


def _doublings(fit: DirectionFit, demand: Demand) -> dict[str, Numbers]:
    """Doublings by which each figure of a demand lies outside what was measured."""
    covered = fit.covered
    figures = {
        "nodes": (demand.num_nodes, covered.num_nodes),
        "ranks per node": (np.divide(demand.num_streams, demand.num_nodes), covered.streams_per_node),
        "bytes per rank": (np.divide(demand.total_bytes, demand.num_streams), covered.bytes_per_stream),
        "files per rank": (np.divide(demand.num_files, demand.num_streams), covered.files_per_stream),
    }
    return {
        name: np.maximum(0.0, np.maximum(np.log2(np.divide(value, high)), np.log2(np.divide(low, value))))
        for name, (value, (low, high)) in figures.items()
    }
