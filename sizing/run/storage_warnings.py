"""What a reader must know of the rates of a storage: for what they were measured, and what they ask of a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sizing.cluster import ResolvedNode
from sizing.layout import WritersOnNodes
from sizing.run.checkpoint import MEMORY_KINDS, NODE_KINDS, Checkpoint
from sizing.run.read_plan import RestoreStrategy
from sizing.run.workload import CheckpointWorkload
from sizing.storage import calibration as calibrations  # of which `predict` is loaded when it is first called
from sizing.storage.catalog import NodeRate
from sizing.storage.rates import DIRECTIONS, Direction, Rates, document_name
from sizing.storage.storage import PICKLING_ENGINE, ResolvedStorage, resolve_storage
from sizing.storage.terms import Demand, file_system_bytes, is_storage_known, shared_terms
from sizing.storage.transfer import combined_seconds
from sizing.units import rate_text, seconds_text

_ROUNDING = 1 + 1e-9
"""A node rate that is its adapters' own must not exceed them by the last digit."""
_NOTABLE = 1.1
"""Ratio of a rate that is assumed to the highest that was seen, from which on a warning has both."""
_TIMES: dict[Direction, str] = {"write": "write time", "read": "restore time"}


class _Words(NamedTuple):
    """How a direction reads in a sentence."""

    does: str
    stream: str


_WORDS: Mapping[Direction, _Words] = {
    "write": _Words("writing node would send", "writer"),
    "read": _Words("reading node would receive", "reader"),
}
Steps = Mapping[Direction, Sequence[Demand]]
"""What a save and a restore ask, or what else is written and read, one step after the other."""


def client_warnings(storage: ResolvedStorage | None) -> Iterator[str]:
    """Warn of rates that are those of the client of the run that measured them."""
    measured = storage.profile.measured if storage else None
    if storage is None or measured is None:
        return
    for direction in measured.limited_by_client:
        rate = storage.profile.rates(direction).file_system_bytes_per_second
        yield (
            f"The {_TIMES[direction]} is by the rate of a client, not of the storage: in run {measured.run_id} "
            f"the client was the limit of {direction}s, {rate_text(float(rate or 0.0))}. The storage gives at "
            "least that. Measure with more ranks or nodes, or with more CPUs"
        )


def measurement_warnings(storage: ResolvedStorage | None, *, layout: WritersOnNodes) -> Iterator[str]:
    """Warn where the benchmark's ranks and nodes are not those of the layout, and of what the benchmark warned of."""
    published = storage.published if storage else None
    if published and published.basis == "achieved" and published.num_nodes != layout.num_writing_nodes:
        yield (
            f"{published.name} states what {published.num_nodes} nodes achieved, and here {layout.num_writing_nodes} "
            "write. The bandwidth for this number of nodes is not published"
        )
    measured = storage.profile.measured if storage else None
    if measured is None:
        return
    layouts = ((measured.num_nodes, measured.num_ranks), *measured.smaller)
    if (layout.num_writing_nodes, layout.num_writers) not in layouts:
        meaning = (
            "The bandwidth is assumed not to grow with more nodes"
            if measured.num_nodes < layout.num_writing_nodes
            else "Other writers may get another bandwidth"
        )
        yield (
            f"The storage was measured with {measured.num_ranks} rank(s) on {measured.num_nodes} node(s), and here "
            f"{layout.num_writers} write from {layout.num_writing_nodes}. {meaning}. Measure with this number"
        )
    for warning in measured.warnings:
        yield f"run {measured.run_id}: {warning}"


def calibration_warnings(
    storage: ResolvedStorage | None, workload: CheckpointWorkload, *, strategy: RestoreStrategy
) -> Iterator[str]:
    """Warn of what the calibration warned of, and where this layout lies outside of what it saw."""
    yield from _contention_warnings(storage, workload)
    calibration = storage.calibration if storage else None
    if calibration is None:
        return
    beyond: dict[str, None] = {}
    for direction, steps in workload.steps(strategy).items():
        prediction = calibrations.predict(calibration, steps, direction=direction)
        if prediction is not None:
            beyond |= dict.fromkeys(prediction.extrapolated)
            yield from _extrapolation_warnings(prediction, direction)
        yield from _lower_bound_warnings(calibration, direction)
        yield from _planning_warnings(calibration, steps, direction)
    if workload.write.process_bytes_per_second is not None and calibration.engine != PICKLING_ENGINE:
        yield (
            f"One process pickles and writes all, and the calibration's runs (engine {calibration.engine}) did not "
            f"write as it does. Measure with ckpt-bench scan --engine {PICKLING_ENGINE}"
        )
    yield from _grade_warnings(calibration, beyond=beyond)
    for warning in calibration.warnings:
        yield f"calibration: {warning}"


def _grade_warnings(calibration: calibrations.Calibration, *, beyond: Iterable[str]) -> Iterator[str]:
    """The grade of the use that this layout makes of a calibration, where it is low.

    Args: `beyond`, the figures of the layout that lie outside of what was measured.
    """
    outside = ", ".join(beyond)
    use = calibration.beyond if outside else calibration.inside
    grade, reasons, where = calibration.grade, calibration.grade_reasons, ""
    if use is not None:
        grade, reasons = use.grade, use.reasons
        where = f" beyond what was measured, as this layout is in {outside}" if outside else " inside what was measured"
    if grade in "CD":
        because = f": {'; '.join(reasons)}" if reasons else ""
        yield f"The calibration has grade {grade}{where}{because}. To improve it, see ckpt-bench calibrate --suggest"


def _extrapolation_warnings(prediction: calibrations.Prediction, direction: Direction) -> Iterator[str]:
    """What of the layout was not measured, and whether its interval is narrow enough to decide by."""
    low, high = prediction.ends_seconds()
    useless = ""
    if not prediction.is_useful:
        useless = f": no useful prediction, it is between {seconds_text(low)} and {seconds_text(high)}"
    if prediction.extrapolated:
        outside = ", ".join(prediction.extrapolated)
        yield (
            f"The {_TIMES[direction]} is extrapolated: {outside} outside the measured range. The "
            f"ends of its interval differ by a factor of {high / low:.3g}{useless}. Measure closer to this layout"
        )
    elif useless:
        yield f"The {_TIMES[direction]} has no narrow interval{useless}. See ckpt-bench calibrate --suggest"


def _contention_warnings(storage: ResolvedStorage | None, workload: CheckpointWorkload) -> Iterator[str]:
    """Say what writers get of a file system that contention slows down."""
    rates = storage.profile.rates("write") if storage else None
    if rates is None or not rates.has_contention or rates.file_system_bytes_per_second is None:
        return
    rate, step = float(rates.file_system_bytes_per_second), workload.write
    got = rate * float(step.total_bytes) / float(file_system_bytes(rates, step))
    yield (
        f"Contention: of the {rate_text(rate)} that the file system gives one writer, {int(step.num_streams):,} "
        f"writers get {rate_text(got)}. Rates that are required are those of one writer"
    )


def _lower_bound_warnings(calibration: calibrations.Calibration, direction: Direction) -> Iterator[str]:
    """Warn of limits of which the calibration knows a lower bound alone."""
    fit = calibration.fit(direction)
    for limit in fit.limits if fit else ():
        if limit.verdict == "lower-bound" and limit.value is not None:
            used = limit.profile_value
            assumed = f"; {rate_text(used)} is assumed" if used is not None and used > _NOTABLE * limit.value else ""
            yield (
                f"The {limit.resource} limit of {direction}s is not known, only its lower bound of "
                f"{rate_text(limit.value)}: {limit.reason}{assumed}"
            )


def _planning_warnings(
    calibration: calibrations.Calibration, steps: Sequence[Demand], direction: Direction
) -> Iterator[str]:
    """Warn of ranks that plan, where no run of the calibration shows how long that takes."""
    fit, num_ranks = calibration.fit(direction), max(int(np.max(step.num_planned_ranks)) for step in steps)
    if fit is not None and num_ranks and not fit.holds("planning"):
        takes = "assumes" if any(np.any(step.planning_seconds_per_rank) for step in steps) else "leaves out"
        yield (
            f"The {_TIMES[direction]} {takes} the planning of {num_ranks:,} ranks: the calibration's runs "
            f"(engine {calibration.engine}) show no planning time"
        )


@dataclass(frozen=True, slots=True)
class _NodeTraffic:
    """What the fullest node moves per second in the busiest step of a save or a restore, and each of its streams."""

    node_bytes_per_second: float
    stream_bytes_per_second: float


def _node_traffic(rates: Rates, steps: Sequence[Demand]) -> _NodeTraffic | None:
    """The traffic of a node while bytes flow, or None where there is no rate.

    Of each step B / (n t), with t the time of its slowest shared resource, over n nodes; serial steps move nothing. A
    step that a cache takes at once has no rate.
    """
    traffic = []
    for step in steps:
        times = shared_terms(rates, step)
        if not is_storage_known(rates, times):
            return None
        seconds = combined_seconds(*times.values(), knee_power=rates.knee_power)
        if seconds > 0:
            flowing = float(step.total_bytes / seconds)
            traffic.append(_NodeTraffic(flowing / float(step.num_nodes), flowing / float(step.num_streams)))
    return max(traffic, key=lambda each: each.node_bytes_per_second, default=None)


def node_warnings(
    storage: ResolvedStorage | None,
    *,
    node: ResolvedNode,
    workload: CheckpointWorkload,
    checkpoint: Checkpoint,
    beside: Mapping[str, Steps],
) -> Iterator[str]:
    """Where the scenario's rates ask too much of a node: by the main storage, then by each tier on drives.

    `beside` has what else moves to and from the main storage, by its name in a sentence.
    """
    steps = workload.steps(checkpoint.restore)
    if storage is not None:
        own_warnings = list(_rate_warnings(storage, node, steps, is_in_nodes=storage.is_in_nodes))
        yield from own_warnings
        for what, others in beside.items():
            warnings = _rate_warnings(storage, node, others, is_in_nodes=storage.is_in_nodes)
            yield from (f"The {what}: {warning}" for warning in warnings if warning not in own_warnings)
    for tier in checkpoint.tiers:
        tier_storage = resolve_storage(tier.storage)
        if tier_storage is not None and tier.kind not in MEMORY_KINDS:
            warnings = _rate_warnings(tier_storage, node, steps, is_in_nodes=tier.kind in NODE_KINDS)
            yield from (f"The {tier.kind} tier: {warning}" for warning in warnings)


def needed_warnings(
    needed: Mapping[str, float], storage: ResolvedStorage | None, *, node: ResolvedNode, steps: Steps
) -> Iterator[str]:
    """Where rates that targets need, by their fields in a profile, ask more of a node than its adapters carry."""
    if storage is not None and storage.is_in_nodes:
        return
    for direction in DIRECTIONS:
        # What the fewest nodes would carry alone bounds it: almost every answer ends here.
        rate = needed.get(document_name("file_system_bytes_per_second", direction), 0.0)
        if _excess(node, rate / min(float(step.num_nodes) for step in steps[direction])) is None:
            continue
        given = storage.profile.rates(direction).document(direction) if storage else {}
        traffic = _node_traffic(Rates.of_document({**given, **needed}, direction), steps[direction])
        excess = _excess(node, traffic.node_bytes_per_second if traffic else 0.0)
        if excess is not None:
            yield f"To meet the targets, each {_WORDS[direction].does} {excess}. Use more nodes, or relax a target"


def _rate_warnings(storage: ResolvedStorage, node: ResolvedNode, steps: Steps, *, is_in_nodes: bool) -> Iterator[str]:
    """Warn at most once for each direction: adapters that cannot carry it matter more than streams."""
    for direction in filter(steps.get, DIRECTIONS):
        rates = storage.profile.rates(direction)
        traffic = _node_traffic(rates, steps[direction])
        warning = None if is_in_nodes else _adapter_warning(rates, traffic, node, direction)
        if warning is None:
            warning = _stream_warning(traffic, storage.max_node_rate(direction, is_in_nodes=is_in_nodes), direction)
        if warning is not None:
            yield warning


def _adapter_warning(
    rates: Rates, traffic: _NodeTraffic | None, node: ResolvedNode, direction: Direction
) -> str | None:
    """The sentence for a node's rate, computed or given, that its adapters cannot carry."""
    field = document_name("node_bytes_per_second", direction)
    remedy = f"Give cluster.storage_nics, or a lower storage.profile.{field}"
    computed = _excess(node, traffic.node_bytes_per_second if traffic else 0.0)
    if computed is not None:
        return f"Each {_WORDS[direction].does} {computed}. {remedy}"
    stated = _excess(node, float(rates.node_bytes_per_second or 0.0))
    return None if stated is None else f"storage.profile.{field} is {stated}. {remedy}"


def _excess(node: ResolvedNode, bytes_per_second: float) -> str | None:
    """A rate beside what the adapters of the node carry, where that is less.

    Adapters that the scenario states bound the answer: nothing passes them, whatever it gives.
    """
    limit = None if node.storage_nics else node.network_limit
    if limit is None or bytes_per_second <= limit.bytes_per_second * _ROUNDING:
        return None
    return f"{rate_text(bytes_per_second)}, more than the {rate_text(limit.bytes_per_second)} of {limit.name}"


def _stream_warning(traffic: _NodeTraffic | None, most: NodeRate | None, direction: Direction) -> str | None:
    """The sentence for rates above the most that is published of one node's streams."""
    if traffic is None or most is None or traffic.node_bytes_per_second <= most.bytes_per_second * _ROUNDING:
        return None
    words = _WORDS[direction]
    return (
        f"Each {words.stream} would have to {direction} {rate_text(traffic.stream_bytes_per_second)}, "
        f"{rate_text(traffic.node_bytes_per_second)} per node; the most that {most.source} gives is "
        f"{rate_text(most.bytes_per_second)} per node. Measure it with ckpt-bench, or give a lower "
        f"storage.profile.{document_name('node_bytes_per_second', direction)}"
    )
