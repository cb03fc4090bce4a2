"""A scenario whose storage rates and interval may be set anew, what it then answers, and which interval is best."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sizing.run.checkpoint import ROUNDING
from sizing.run.evaluation import (
    RunInputs,
    RunReport,
    evaluate,
    judge_targets,
    levels_at_best_intervals,
    time_run,
)
from sizing.run.export import stalling_writes
from sizing.run.figures import with_arrays
from sizing.run.targets import TargetCheck
from sizing.run.timing import Timing
from sizing.run.workload import CheckpointWorkload
from sizing.storage.joint_rates import FILE_SYSTEM, JointRates, joint_rates
from sizing.storage.limits import Direction
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, TERMS, document_name, rate_names
from sizing.storage.transfer import Floats, Numbers
from sizing.units import MAX_BYTES, MAX_SECONDS

DRAINED = "interval_seconds"
"""Not a target of the scenario: an asynchronous save must have drained before the next one starts."""
INTERVAL = "checkpoint.interval_seconds"
TARGET_NAMES = {
    "max_stall_seconds": "stall",
    "max_overhead_fraction": "overhead",
    "recovery_seconds": "recovery",
    "min_goodput_fraction": "goodput",
    DRAINED: "drain before the next save",
}
"""What sentences call each target."""


def profile_path(name: str, direction: Direction) -> str:
    """Where a scenario has one of the `Rates` of a direction.

    >>> profile_path("node_bytes_per_second", "read")
    'storage.profile.node_read_bytes_per_second'
    """
    return f"storage.profile.{document_name(name, direction)}"


WRITE_RATE = profile_path(FILE_SYSTEM, "write")
COPY_RATE = profile_path("device_to_host_bytes_per_second", "write")
READ_RATE = profile_path(FILE_SYSTEM, "read")
_STREAMS: dict[Direction, str] = {"write": "writer", "read": "reader"}
UNIT_RATE_NAMES = {
    profile_path(name, direction): f"{direction} bandwidth per {'node' if TERMS[name].unit == 'node' else stream}"
    for direction, stream in _STREAMS.items()
    for name in rate_names("shared", "node", "stream")
}
"""What sentences call the rate of one node, and of one stream."""
_SECTIONS = 64
"""Tried at once, as arrays cost little more than numbers: eight rounds find the place where halving takes fifty."""
_PRECISION = 1e-10
"""Relative error of the place of the max. The value there is more exact, as the curve is flat at its max."""
EDGE_SECTIONS = 1024
"""Tried at once to find an edge: five rounds find it, and each costs little more than one of a few numbers."""
_EDGE_PRECISION = 1e-13
"""Some hundred steps of a float: closer, sections of one bracket would be equal numbers."""
_HAIR = 2.0**-52
"""The step from 1 to the next float."""
Meets = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Solution:
    """Values that together meet targets; where they are met at every rate, `is_any`, `values` holds no rate."""

    values: dict[str, float]
    is_any: bool = False


Bases = dict[tuple[tuple[str, ...], Direction], Solution | None]
"""The min rates for targets that one direction alone decides; None where none is enough."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A scenario whose fields may be set anew: the workload of its layout, and the blocks that come after."""

    workload: CheckpointWorkload
    inputs: RunInputs
    bases: Bases = dataclasses.field(default_factory=dict, compare=False, repr=False)
    """What is known already, as every further target asks for it again."""

    def with_values(self, values: Mapping[str, Any]) -> RunRequest:
        """The request with some fields set to numbers or arrays, the interval to one that goes with the tiers."""
        blocks: dict[str, dict[str, object]] = {}
        for field, given in values.items():
            value = self.whole_interval_seconds(given) if field == INTERVAL else given
            block, name = field.rsplit(".", 1)
            blocks.setdefault(block, {})[name] = value
        checkpoint = with_arrays(self.inputs.checkpoint, blocks.get("checkpoint", {}))
        profile = self.inputs.profile
        if rates := blocks.get("storage.profile"):
            profile = with_arrays(profile or StorageProfile.of(), rates)
        return RunRequest(self.workload, dataclasses.replace(self.inputs, checkpoint=checkpoint, profile=profile))

    def whole_interval_seconds(self, seconds: Numbers) -> Numbers:
        """The interval, or the next longer one that is a whole multiple of that of the tier in front."""
        front = self.inputs.checkpoint.front_tiers
        if not front:
            return seconds
        step = front[-1].interval_seconds
        whole: Numbers = np.ceil(np.divide(seconds, step) * (1 - ROUNDING)) * step
        return whole

    def at(self, values: Mapping[str, object]) -> RunReport:
        """The figures with some fields set to numbers or arrays, everything else as asked."""
        request = self.with_values(values)
        return evaluate(request.workload, request.inputs).report

    def timing_at(self, values: Mapping[str, object]) -> Timing:
        """The times of saves and restores with some fields set, and what these leave of the run."""
        request = self.with_values(values)
        return time_run(request.workload, request.inputs)

    def given(self, field: str) -> float | None:
        """What the scenario says of a field; of an asynchronous save's copy to the host also what it assumes."""
        block, name = field.rsplit(".", 1)
        value: float | None = getattr(
            self.inputs.checkpoint if block == "checkpoint" else self.inputs.profile, name, None
        )
        if value is None and self.is_async and field == COPY_RATE:
            assumed = self.workload.copy_bytes_per_second
            return None if assumed is None else float(assumed)
        return value

    def total_of_file_system(self, solution: Solution) -> float:
        """The write and the read rate of the file system together, those as given where a solution has none."""
        return sum(solution.values.get(path, self.given(path) or 0.0) for path in (WRITE_RATE, READ_RATE))

    def check(self, target: str, values: Mapping[str, object]) -> TargetCheck | None:
        """A target with some fields set, where the scenario sets it and something is found."""
        return check_of(target, self.checks_at(values))

    def checks_at(self, values: Mapping[str, object]) -> list[TargetCheck]:
        """The targets that the scenario sets, with some fields set, and whether a save drains in its interval."""
        request = self.with_values(values)
        judged = judge_targets(request.workload, request.inputs)
        wanted, effective = request.inputs.checkpoint.interval_seconds, judged.effective_interval_seconds
        met = None if effective is None else np.less_equal(effective, wanted)
        return [*judged.targets, TargetCheck.of(target=DRAINED, wanted=wanted, found=effective, met=met)]

    def joint(self, direction: Direction) -> JointRates:
        """The limits of a direction that the scenario gives, to raise together: for saves, and exports that stall."""
        checkpoint = self.inputs.checkpoint
        steps = [*self.workload.steps(checkpoint.restore)[direction]]
        if direction == "write":
            steps += stalling_writes(checkpoint.export, self.workload)
        return joint_rates(self.inputs.profile, steps, direction=direction)

    def joints(self, direction: Direction) -> tuple[JointRates, ...]:
        """The limits of `joint`, and before them, of several steps, those beside the given rates of nodes."""
        return self.joint(direction).alternatives(self.inputs.profile)

    def rate_paths(self, direction: Direction) -> list[str]:
        """Where the scenario has the rates of `joint`."""
        return [profile_path(name, direction) for name in self.joint(direction).unit_bytes]

    @property
    def unlimited(self) -> dict[str, float]:
        """No limit of rates in either direction, but for the adapters of the nodes, which no storage raises."""
        return {path: float(MAX_BYTES) for direction in DIRECTIONS for path in self.rate_paths(direction)}

    @property
    def without_adapters(self) -> RunRequest | None:
        """The request where the adapters of the nodes carry any rate; None where they do already."""
        if self.workload.write.node_network_bytes_per_second is None:
            return None
        return RunRequest(self.workload.past_adapters, self.inputs)

    @property
    def is_async(self) -> bool:
        """Whether saves drain in the background."""
        return self.inputs.checkpoint.mode == "async"

    @property
    def waits_for_room(self) -> bool:
        """Whether an asynchronous save may stall for the drain, as its share need not fit host memory."""
        checkpoint = self.inputs.checkpoint
        return self.is_async and checkpoint.staging_bytes is not None and not checkpoint.front_tiers

    def asks(self, target: str) -> bool:
        """Whether the scenario sets a target."""
        return self.is_async if target == DRAINED else getattr(self.inputs.targets, target) is not None


def check_of(target: str, checks: Sequence[TargetCheck]) -> TargetCheck | None:
    """A target among checks, where the scenario sets it and something is found."""
    return next((check for check in checks if check.target == target and check.found is not None), None)


def interval_bounds(request: RunRequest) -> tuple[float, float]:
    """The min and the max interval that go with the tiers: the main storage is written between them.

    Source: the rules of `checkpoint.check_tiers`.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized_layout import size_layout
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> interval_bounds(RunRequest(size_layout(scenario).workload, scenario.run_inputs)) == (1e-3, MAX_SECONDS)
    True
    """
    checkpoint = request.inputs.checkpoint
    front, behind = checkpoint.front_tiers, checkpoint.archives
    step = front[-1].interval_seconds if front else 1e-3
    high = behind[0].interval_seconds if behind else MAX_SECONDS
    return (2 * step, np.floor(high / step * (1 + ROUNDING)) * step) if front else (step, high)


def best_interval_seconds(
    request: RunRequest, timing: Timing, values: Mapping[str, Numbers] | None = None
) -> float | Floats:
    """The best interval, one for each row of `values` where they are arrays; `timing` is that with the values set.

    By formula with one level. With tiers in front, whose intervals stay, by search of the same goodput that answers.
    Source: `levels.best_compute_seconds`; else `peak`.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized_layout import size_layout
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> request = RunRequest(size_layout(scenario).workload, scenario.run_inputs)
    >>> round(float(best_interval_seconds(request, request.timing_at({}))) / 60, 1)
    31.5
    """
    bounds = interval_bounds(request)
    at_best = levels_at_best_intervals(timing, reliability=request.inputs.reliability, workload=request.workload)
    if len(at_best) <= 1:
        # No number where no interruption needs a save, as with peers that never all fail: then the longer the better.
        best = at_best[0].interval_seconds if at_best else np.inf
        clipped: float | Floats = np.clip(np.where(np.isnan(best), np.inf, best), *bounds)
        return clipped
    rows = {path: np.asarray(value, dtype=np.float64) for path, value in (values or {}).items()}
    shape = np.broadcast_shapes(*(row.shape for row in rows.values()))
    num_rows = shape[0] if shape else 1

    def goodput(intervals: Floats) -> Floats:
        given = {path: np.repeat(row, intervals.shape[1]) if row.ndim else row for path, row in rows.items()}
        reached = request.timing_at(given | {INTERVAL: intervals.ravel()}).goodput_fraction
        return np.broadcast_to(np.asarray(reached, dtype=np.float64), intervals.size).reshape(intervals.shape)

    step = request.inputs.checkpoint.front_tiers[-1].interval_seconds
    low, high = (np.full(num_rows, bound) for bound in bounds)
    near = request.whole_interval_seconds(peak(goodput, low=low, high=high, near_enough=step))
    # The goodput is the same between two multiples of the interval in front, so those next to the peak are tried.
    tried = np.clip(np.asarray(near, dtype=np.float64)[:, None] + step * np.arange(-1, 2), *bounds)
    place = np.argmax(np.nan_to_num(goodput(tried), nan=-np.inf), axis=1)[:, None]
    intervals_at_peak = np.take_along_axis(tried, place, axis=1)
    return intervals_at_peak[:, 0] if shape else float(intervals_at_peak[0, 0])


def best_goodput_fraction(request: RunRequest) -> float | None:
    """The goodput at the best interval; None where it is not known, or only without the restore.

    Source: `goodput.goodput_fraction` at `best_interval_seconds`, or that of several levels.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized_layout import size_layout
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> round(best_goodput_fraction(RunRequest(size_layout(scenario).workload, scenario.run_inputs)), 4)  # as published
    0.9469
    """
    timing = request.timing_at({INTERVAL: best_interval_seconds(request, request.timing_at({}))})
    goodput = timing.goodput_fraction
    return None if goodput is None or timing.leaves_out_restore else float(goodput)


def peak(value: Callable[[Floats], Floats], *, low: Floats, high: Floats, near_enough: float = 0.0) -> Floats:
    """Where a value that rises and then falls has its max, for each row between its bounds, or within `near_enough`.

    Each round cuts every bracket into 64 sections of equal ratio and keeps the two next to the max.
    Source: search of a unimodal function, Kiefer 1953, Proceedings of the AMS 4(3), by grids instead of golden
    sections.

    >>> peak(lambda x: -np.square(np.log(x / 7.0)), low=np.array([1.0]), high=np.array([1e9])).round(6)
    array([7.])
    """
    while np.any((high / low - 1 > _PRECISION) & (high - low > near_enough)):
        tried = np.geomspace(low, high, _SECTIONS + 1, axis=-1)
        best = np.argmax(np.nan_to_num(value(tried), nan=-np.inf), axis=1)[:, None]
        low = np.take_along_axis(tried, np.maximum(best - 1, 0), axis=-1)[:, 0]
        high = np.take_along_axis(tried, np.minimum(best + 1, _SECTIONS), axis=-1)[:, 0]
    return np.sqrt(low * high)


def last_that_meets(meets: Meets, *, good: float, bad: float, num_sections: int = EDGE_SECTIONS) -> float:
    """The value nearest to `bad` that meets a condition, which holds at `good` and fails once on the way to `bad`.

    Each round cuts the bracket into sections of equal ratio and keeps the one with the edge. With 1,024 sections about
    five rounds reach 1e-13. What is returned meets the condition also when asked alone.
    Source: bisection, with many sections at a time.

    >>> round(last_that_meets(lambda x: x * x >= 2.0, good=1e21, bad=1e-3), 9)
    1.414213562
    """
    while abs(bad / good - 1) > _EDGE_PRECISION:
        tried = np.geomspace(good, bad, num_sections + 1)
        met = meets(tried)
        met[0], met[-1] = True, False
        failed = int(np.argmin(met))
        good, bad = float(tried[failed - 1]), float(tried[failed])
    step = _HAIR if good > bad else -_HAIR
    while not meets(np.array([good]))[0]:
        good *= 1 + step
        step *= 2
    return good
