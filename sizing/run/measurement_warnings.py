"""What a measured storage profile did not see of the layout that it is used for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sizing.layout import WritersOnNodes
from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import RestoreStrategy
from sizing.storage.calibration import Calibration, Prediction, predicted
from sizing.storage.rates import Direction
from sizing.storage.storage import ResolvedStorage
from sizing.storage.terms import Demand, file_system_bytes
from sizing.units import rate_text, seconds_text

_TIMES: dict[Direction, str] = {"write": "write time", "read": "restore time"}


def measurement_warnings(storage: ResolvedStorage | None, *, layout: WritersOnNodes) -> Iterator[str]:
    """Where the benchmark's ranks and nodes are not those of the layout, and what the benchmark itself warned of."""
    published = storage.published if storage else None
    if published and published.basis == "achieved" and published.num_nodes != layout.num_writing_nodes:
        yield (
            f"{published.name} states what {published.num_nodes} nodes achieved, and here {layout.num_writing_nodes} "
            "write. The bandwidth for this number of nodes is not published"
        )
    measured = storage.profile.measured if storage else None
    if measured is None:
        return
    seen, asked = (measured.num_ranks, measured.num_nodes), (layout.num_writers, layout.num_writing_nodes)
    if seen != asked:
        meaning = (
            "The bandwidth is assumed not to grow with more nodes"
            if measured.num_nodes < layout.num_writing_nodes
            else "Other writers may get another bandwidth"
        )
        yield (
            f"The storage was measured with {seen[0]} rank(s) on {seen[1]} node(s), and here {asked[0]} write from "
            f"{asked[1]}. {meaning}. Measure with this number"
        )
    for warning in measured.warnings:
        yield f"run {measured.run_id}: {warning}"


def calibration_warnings(
    storage: ResolvedStorage | None, demands: Demands, *, strategy: RestoreStrategy
) -> Iterator[str]:
    """What the calibration warned of, and where this layout lies outside of what it saw."""
    yield from _contention(storage, demands)
    calibration = storage.calibration if storage else None
    if calibration is None:
        return
    asked: tuple[tuple[Direction, Sequence[Demand]], ...] = (
        ("write", [demands.write]),
        ("read", demands.restores[strategy].demands),
    )
    for direction, steps in asked:
        found = predicted(calibration, steps, direction=direction)
        if found is not None:
            yield from _extrapolated(found, direction)
        yield from _unseen(calibration, direction)
        yield from _unplanned(calibration, steps, direction)
    if calibration.grade in "CD":
        because = f": {'; '.join(calibration.grade_reasons)}" if calibration.grade_reasons else ""
        yield (
            f"The calibration has grade {calibration.grade}{because}. To improve it, see ckpt-bench calibrate --suggest"
        )
    for warning in calibration.warnings:
        yield f"calibration: {warning}"


def _extrapolated(found: Prediction, direction: Direction) -> Iterator[str]:
    """What of the layout was not measured, and whether its interval is narrow enough to decide by."""
    low, high = found.ends_seconds()
    useless = (
        "" if found.is_useful else f": no useful prediction, it is between {seconds_text(low)} and {seconds_text(high)}"
    )
    if found.extrapolated:
        yield (
            f"The {_TIMES[direction]} is extrapolated: {', '.join(found.extrapolated)} outside the measured range. The "
            f"ends of its interval differ by a factor of {high / low:.3g}{useless}. Measure closer to this layout"
        )
    elif useless:
        yield f"The {_TIMES[direction]} has no narrow interval{useless}. See ckpt-bench calibrate --suggest"


def _contention(storage: ResolvedStorage | None, demands: Demands) -> Iterator[str]:
    """What writers get of a file system that contention slows down."""
    rates = storage.profile.rates("write") if storage else None
    if rates is None or not rates.has_contention or rates.file_system_bytes_per_second is None:
        return
    rate, step = float(rates.file_system_bytes_per_second), demands.write
    got = rate * float(step.total_bytes) / float(file_system_bytes(rates, step))
    yield (
        f"Contention: of the {rate_text(rate)} that the file system gives one writer, {int(step.num_streams):,} "
        f"writers get {rate_text(got)}. Rates that are required are those of one writer"
    )


def _unseen(calibration: Calibration, direction: Direction) -> Iterator[str]:
    fit = calibration.fit(direction)
    for limit in fit.limits if fit else ():
        if limit.verdict == "lower-bound" and limit.value is not None:
            yield (
                f"The {limit.resource} limit of {direction}s is not known, only its lower bound of "
                f"{rate_text(limit.value)}: {limit.reason}"
            )


def _unplanned(calibration: Calibration, steps: Sequence[Demand], direction: Direction) -> Iterator[str]:
    fit, num_ranks = calibration.fit(direction), max(int(np.max(step.num_planned_ranks)) for step in steps)
    if fit is not None and num_ranks and not fit.holds("planning"):
        takes = "assumes" if any(np.any(step.planning_seconds_per_rank) for step in steps) else "leaves out"
        yield (
            f"The {_TIMES[direction]} {takes} the planning of {num_ranks:,} ranks: the calibration's runs "
            f"(engine {calibration.engine}) show no planning time"
        )
