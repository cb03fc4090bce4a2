"""Which further runs help the most: they make an unseen limit bind, or narrow the widest interval.

Command lines are those of runs that are fitted together with the measured ones: same target, engine, block size, sizes.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizing.storage.calibration.calibration import Calibration, DirectionFit, LimitEstimate
from sizing.storage.calibration.fit_data import OPERATIONS, RunMeasurement
from sizing.storage.measurement import SHORT_SECONDS
from sizing.storage.rates import DIRECTIONS, TERMS, Direction, Rates
from sizing.storage.terms import Demand, total_seconds
from sizing.storage.transfer import Floats
from sizing.units import parse_bytes, percent_text

_MAX_SUGGESTIONS = 3
"""Max of suggestions for each direction: people make a few runs and calibrate again."""
_MIN_RATIO_WORTH_A_RUN = 2.0
"""Between sizes, below which another one is suggested: above `MIN_RATIO_OF_SIZES`, from which on there is no doubt of
them, as a run more costs little."""
_UNITS = {term.resource: term.unit for term in TERMS.values() if term.kind == "shared" and term.fit_order is not None}
"""What the rate of each shared resource is that of, which a calibration fits."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A configuration to measure, and what it would tell; `bytes_per_rank` of files, as it was fitted."""

    direction: Direction
    num_nodes: int
    ranks_per_node: int
    bytes_per_rank: int
    reason: str

    def command(self, rows: Sequence[RunMeasurement]) -> str:
        """The command line, to start on each of the nodes, for a run that is fitted together with the rows."""
        launch = launch_text("run", num_nodes=self.num_nodes, ranks_per_node=self.ranks_per_node)
        size = size_text(_payload_bytes(rows, self.bytes_per_rank))
        return f"{launch} {shared_flags(rows)} --bytes-per-rank {size}"

    def long_enough(self, calibration: Calibration) -> Suggestion:
        """The same with a multiple of the size, so that neither its write nor its restore is too short to count."""
        num_ranks = self.num_nodes * self.ranks_per_node
        demand = Demand(self.bytes_per_rank * num_ranks, num_ranks, self.num_nodes, num_ranks)
        times = round(float(_times_to_last(calibration, demand)))
        return replace(self, bytes_per_rank=times * self.bytes_per_rank)


def suggest_runs(calibration: Calibration) -> tuple[Suggestion, ...]:
    """Runs worth making, the most telling first: at most three for writes and three for reads."""
    found: list[Suggestion] = []
    for direction in DIRECTIONS:
        fit = calibration.fit(direction)
        if fit is not None:
            others = itertools.chain(_to_vary(fit, direction), _to_reach(fit, direction), _to_confirm(fit, direction))
            rows = itertools.chain(
                _where_wrong(fit, direction),
                (each.long_enough(calibration) for each in others),
                _to_narrow(calibration, fit, direction),
            )
            found += itertools.islice(rows, _MAX_SUGGESTIONS)
    return tuple(found)


def _times_to_last(calibration: Calibration, demand: Demand) -> Floats:
    """How many times its bytes a demand has to move, so that write and restore take 5 s or more, as predicted."""
    seconds = [
        total_seconds(calibration.profile.rates(direction), [demand])
        for direction in DIRECTIONS
        if calibration.fit(direction) is not None
    ]
    times: Floats = np.maximum(1.0, np.ceil(SHORT_SECONDS / np.array(seconds, dtype=np.float64).min(axis=0)))
    return times


def _where_wrong(fit: DirectionFit, direction: Direction) -> Iterator[Suggestion]:
    """The configuration with the worst miss that is no outlier."""
    for found in fit.wrong_here[:1]:
        slower = "longer" if found.miss_fraction > 0 else "less"
        reason = (
            f"the model of {OPERATIONS[direction]}s is wrong here: it took {percent_text(abs(found.miss_fraction))} "
            f"{slower} than predicted"
        )
        ranks = found.num_streams // found.num_nodes
        yield Suggestion(direction, found.num_nodes, ranks, found.total_bytes // found.num_streams, reason)


def _to_reach(fit: DirectionFit, direction: Direction) -> Iterator[Suggestion]:
    """Runs in which a limit would bind that these could not tell; one that did bind may only need a second size.

    None where a straggler decided the times: more nodes would wait for it too.
    """
    if fit.stragglers:
        return
    covered, size = fit.covered, round(fit.covered.bytes_per_stream[1])
    nodes, ranks = round(covered.num_nodes[1]), round(covered.streams_per_node[1])
    for limit in fit.limits:
        if limit.verdict != "lower-bound" or (limit.num_binding and _has_one_size(fit)):
            continue
        reason = f"the {limit.resource} limit of {OPERATIONS[direction]}s is a lower bound: {limit.reason}"
        unit = _UNITS.get(limit.resource)
        if unit == "system":
            yield Suggestion(direction, 2 * nodes, ranks, size, reason)
        elif unit == "node":
            yield Suggestion(direction, 1, 2 * ranks, size, reason)
        elif unit == "stream" and covered.streams_per_node[0] > 1:
            yield Suggestion(direction, 1, 1, size, reason)


def _to_confirm(fit: DirectionFit, direction: Direction) -> Iterator[Suggestion]:
    """A second number of nodes near the most, where only the runs with the most show a limit.

    Midway to the next fewer that were measured and did not show it; measured in turn, it halves the gap again.
    """
    *fewer, most = sorted({point.num_nodes for point in fit.points})
    for frontier in fit.frontiers:
        if frontier.only_here and frontier.axis == "nodes" and most - fewer[-1] > 1 and not fit.stragglers:
            reason = (
                f"only the {OPERATIONS[direction]}s of the most nodes show {' and '.join(frontier.only_here)}, and a "
                "second number of nodes near them tells a limit of the storage from one that so many nodes share"
            )
            ranks, size = round(fit.covered.streams_per_node[1]), round(fit.covered.bytes_per_stream[1])
            yield Suggestion(direction, (fewer[-1] + most) // 2, ranks, size, reason)


def _to_vary(fit: DirectionFit, direction: Direction) -> Iterator[Suggestion]:
    """A second size, where all runs had one."""
    if _has_one_size(fit):
        covered = fit.covered
        reason = f"one size cannot separate the {OPERATIONS[direction]} rates from times that do not grow with bytes"
        nodes, ranks = round(covered.num_nodes[1]), round(covered.streams_per_node[1])
        yield Suggestion(direction, nodes, ranks, 4 * round(covered.bytes_per_stream[1]), reason)


def _has_one_size(fit: DirectionFit) -> bool:
    low, high = fit.covered.bytes_per_stream
    return high < _MIN_RATIO_WORTH_A_RUN * low


def _to_narrow(calibration: Calibration, fit: DirectionFit, direction: Direction) -> Iterator[Suggestion]:
    """The run after which the widest interval of a limit would be narrowest.

    The draws are taken for what is believed of limit and time together, as jointly normal in the logarithm: a
    measurement of log time with noise s leaves var(u) - cov(u, log T)^2 / (var(log T) + s^2) of the limit's variance.
    """
    measured = [
        limit
        for limit in fit.limits
        if limit.interval is not None and _UNITS.get(limit.resource) in ("system", "node", "stream")
    ]
    if not measured:
        return
    widest = max(measured, key=_width)
    limit = np.log(fit.draws[widest.field])
    draws = {field: np.array(values)[:, None] for field, values in fit.draws.items()}
    covered = fit.covered
    spans = (covered.num_nodes, covered.streams_per_node, covered.bytes_per_stream)
    nodes, ranks, size = np.array(list(itertools.product(*map(_double_up_to, spans))), dtype=np.float64).T
    size = size * _times_to_last(calibration, Demand(nodes * ranks * size, nodes * ranks, nodes, nodes * ranks))
    demand = Demand(nodes * ranks * size, nodes * ranks, nodes, nodes * ranks)
    rates = Rates.of_document({**calibration.profile.rates(direction).document(direction), **draws}, direction)
    times = np.log(total_seconds(rates, [demand]))
    covariance = ((limit - limit.mean())[:, None] * times).mean(axis=0)
    left = 1 - covariance**2 / (limit.var() * (times.var(axis=0) + fit.noise_fraction**2))
    best = int(left.argmin())
    low, high = widest.interval or (0.0, 0.0)
    reason = (
        f"narrows the {widest.resource} limit of {OPERATIONS[direction]}s, the widest interval, from "
        f"{_either_way(high / low, 1.0)} to {_either_way(high / low, math.sqrt(left[best]))} either way"
    )
    yield Suggestion(direction, int(nodes[best]), int(ranks[best]), int(size[best]), reason)


def _double_up_to(span: tuple[float, float]) -> list[int]:
    """The low end, its doublings below the high end, and the high end.

    >>> _double_up_to((1.0, 8.0)), _double_up_to((3.0, 10.0)), _double_up_to((4.0, 4.0))
    ([1, 2, 4, 8], [3, 6, 10], [4])
    """
    low, high = math.ceil(span[0]), round(span[1])
    count = int(math.log2(high / low)) + 1 if high > low else 1
    return sorted({*(low * 2**power for power in range(count)), high})


def _either_way(ratio: float, narrowed_by: float) -> str:
    """Half of an interval whose ends have that ratio, in the logarithm, as percent."""
    return percent_text(ratio ** (narrowed_by / 2) - 1)


def _width(limit: LimitEstimate) -> float:
    low, high = limit.interval or (1.0, 1.0)
    return high / low


def further_runs(rows: Sequence[RunMeasurement]) -> str:
    """Name the scan that adds enough configurations to those of the rows, on no more nodes than these had."""
    configurations = [row.configuration for row in rows] or [(1, 1, 0, 1, 0)]
    num_nodes = max(nodes for nodes, *_ in configurations)
    writers = sorted({1, 2, max(3, *(ranks // nodes for nodes, ranks, *_ in configurations))})
    size = 10**9
    if rows:  # the largest measured, or a multiple that takes long enough at the highest rate of a rank
        largest = max(rows, key=lambda row: row.measurement.bytes_per_rank).measurement.bytes_per_rank
        fastest = max(row.measurement.bytes_per_rank / row.seconds for row in rows)
        size = max(1, math.ceil(SHORT_SECONDS * fastest / largest)) * _payload_bytes(rows, largest)
    where = placeholders_text(num_nodes)
    return (
        f"measure several numbers of ranks with two sizes, {where + ', ' if where else ''}for example "
        f"{launch_text('scan', num_nodes=num_nodes, ranks_per_node=writers[-1])} "
        f"{shared_flags(rows)} --writers {','.join(map(str, writers))} "
        f"--bytes-per-rank {size_text(size)},{size_text(3 * size)}"
    )


_SHARED_FLAGS = {
    "--engine": "engine",
    "--block-size": "block_bytes",
    "--stripe-count": "stripe_count",
    "--stripe-size": "stripe_bytes",
}
"""Flags by the field of a measurement that holds their value: runs that differ in one are not fitted together."""


def shared_flags(rows: Sequence[RunMeasurement]) -> str:
    """Write the flags that further runs share with the rows: those in which all agree; DIR where targets differ."""
    targets = {row.target for row in rows}
    target = targets.pop() if len(targets) == 1 else ""
    words = ["--target", shlex.quote(target) if target else "DIR"]
    for name, field in _SHARED_FLAGS.items():
        values = {getattr(row.measurement, field) for row in rows}
        if len(values) == 1 and (value := values.pop()) is not None:
            words += [name, size_text(value) if field.endswith("_bytes") else str(value)]
    return " ".join(words)


def launch_text(verb: str, *, num_nodes: int, ranks_per_node: int) -> str:
    """Write the beginning of a command line with launcher and verb, to type on each node.

    >>> launch_text("run", num_nodes=2, ranks_per_node=8)[:60]
    'torchrun --nnodes 2 --node-rank NODE_RANK --nproc-per-node 8'
    >>> launch_text("run", num_nodes=1, ranks_per_node=8), launch_text("scan", num_nodes=1, ranks_per_node=8)
    ('ckpt-bench run --ranks 8', 'ckpt-bench scan')
    """
    if num_nodes > 1:
        ranks = f"--nproc-per-node {ranks_per_node} --master-addr FIRST_NODE"
        return f"torchrun --nnodes {num_nodes} --node-rank NODE_RANK {ranks} -m io_bench {verb}"
    return f"ckpt-bench {verb}" + (f" --ranks {ranks_per_node}" if verb == "run" and ranks_per_node > 1 else "")


def placeholders_text(num_nodes: int) -> str:
    """Say what to put in place of the names in capitals of a command line for several nodes; empty for one.

    >>> placeholders_text(2)
    'on each of 2 nodes, with its number from 0 as NODE_RANK and the name of node 0 as FIRST_NODE'
    """
    if num_nodes == 1:
        return ""
    return f"on each of {num_nodes} nodes, with its number from 0 as NODE_RANK and the name of node 0 as FIRST_NODE"


def _payload_bytes(rows: Sequence[RunMeasurement], file_bytes: int) -> int:
    """Compute the payload with which a rank writes so many bytes, as headers and padding were in the rows.

    Those of the nearest size count, in proportion. Bytes of files where the rows do not state their payload.
    """
    sizes = {row.measurement.bytes_per_rank: row.measurement.payload_bytes_per_rank for row in rows}
    known = [(of_files, payload) for of_files, payload in sizes.items() if payload is not None]
    if not known:
        return file_bytes
    of_files, payload = min(known, key=lambda pair: abs(math.log(pair[0] / file_bytes)))
    # Ranks of unequal files have a mean that is rounded.
    return payload if abs(of_files - file_bytes) <= 1 else round(payload * file_bytes / of_files)


def size_text(num_bytes: int) -> str:
    """Write a number of bytes exactly, with a unit where it is a whole number of them.

    >>> size_text(32 * 2**20), size_text(3 * 10**9), size_text(35_000_001)
    ('32MiB', '3GB', '35000001')
    """
    units = {name: parse_bytes(f"1{name}") for name in ("GiB", "GB", "MiB", "MB")}
    return next((f"{num_bytes // unit}{name}" for name, unit in units.items() if num_bytes % unit == 0), str(num_bytes))
