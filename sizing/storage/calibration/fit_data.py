"""The measurements of benchmark runs that can be fitted together: what is used, what is left out and why."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from sizing.errors import InvalidInput
from sizing.storage.measurement import RAW_ENGINE, BenchmarkResult, Measurement, Operation
from sizing.storage.rates import Direction
from sizing.storage.terms import Demand
from sizing.storage.transfer import Floats
from sizing.units import binary_bytes_text, decimal_bytes_text

OPERATIONS: dict[Direction, Operation] = {"write": "write", "read": "restore"}

Setting = tuple[str, int | None, str, str]
Configuration = tuple[int, int, int, int, int]

MIN_CONFIGURATIONS = 3
"""A rate, a fixed time and one to check them: below, any times are explained."""

CONTRADICTION_RATIO = 2.0
"""Between the nearest ends of what two runs say of the time of one configuration. A choice, far above noise: storage
that was changed between them, or was busy."""

UNTIL_VERIFIED = "do not use this storage until ckpt-bench verify passes"

PLANNING_ENGINES = ("dcp", "async-dcp")


@dataclass(frozen=True, slots=True)
class RunMeasurement:
    """A measurement, and the run that it is from."""

    run_id: str
    measurement: Measurement
    rank_nodes: tuple[str, ...] = ()
    """Node of each rank of the run, which may have more ranks than the measurement; empty where not recorded."""
    target: str = ""
    """Directory or URL that was measured, as `--target` takes it; empty where not recorded."""

    @property
    def node_names(self) -> list[str]:
        """Name of each node of the measurement in the order of its ranks: its host, else its number."""
        num_nodes, num_ranks = self.measurement.num_nodes, self.measurement.num_ranks
        distinct = list(dict.fromkeys(self.rank_nodes))
        hosts = [name.partition("/")[0] for name in distinct[:num_nodes]]
        if len(set(hosts)) == num_nodes and num_ranks % num_nodes == 0:
            return hosts
        return [f"node {number + 1}" for number in range(num_nodes)]

    @property
    def setting(self) -> Setting:
        """What all measurements of a fit share: engine, block size, whether I/O is direct, stripes and shape.

        Restores of what another node wrote are cold either way, and do not say which they were. Limits explain the time
        of bytes that move. In a workload of another shape something else takes time too (deletions, batches, an
        exchange), or one byte of storage is read by many: as a plain row, it would bend the limits.
        """
        found = self.measurement
        io = {"o-direct": "direct", "other-node": "either"}.get(found.cache_policy, "buffered")
        return (found.engine, found.block_bytes, io, _shape_text(found))

    @property
    def configuration(self) -> Configuration:
        """What a fit explains the time by: nodes, ranks, bytes of a rank, files, stripes of a file; 0 if unknown."""
        found = self.measurement
        return (found.num_nodes, found.num_ranks, found.bytes_per_rank, self.num_files, self.num_stripes)

    @property
    def num_stripes(self) -> int:
        """Storage targets of each file, as set for the run; 0 where that was left to the directory, or to all."""
        return max(0, self.measurement.stripe_count or 0)

    @property
    def num_files(self) -> int:
        """Files of the checkpoint; one per rank where the agent did not count them."""
        return self.measurement.num_files or self.measurement.num_ranks

    @property
    def moved_bytes(self) -> int:
        """Bytes of all repetitions, the warm-up among them."""
        return self.measurement.total_bytes * (len(self.measurement.seconds) + 1)

    @property
    def seconds(self) -> float:
        """Time at the rate to reckon with: the median over the repetitions, or where writes fell, at what went on."""
        return self.measurement.total_bytes / self.measurement.headline_bytes_per_second

    @property
    def seconds_interval(self) -> tuple[float, float]:
        """The 95 % interval of that time, as the run states it: of its median, so that more repetitions narrow it.

        It is no wider than the repetitions. It is the time alone where the run states none, where one repetition says
        nothing of its spread, and where writes fell: then the repetitions had two rates, and their median is not the
        time to reckon with.
        """
        rates, samples = self.measurement.rate_interval_bytes_per_second, self.measurement.seconds
        if rates is None or self.measurement.fall is not None:
            return self.seconds, self.seconds
        low, high = (self.measurement.total_bytes / rate for rate in reversed(rates))
        return min(max(low, min(samples)), self.seconds), max(min(high, max(samples)), self.seconds)


def _shape_text(found: Measurement) -> str:
    """Stripes that were set, and a shape of the workload's own, in words. Counts of stripes are fitted together."""
    words = "stripes over all targets" if found.stripe_count == -1 else "stripes that were set"
    stripes = [words] if found.stripe_count is not None else []
    sizes = [f"stripes of {binary_bytes_text(found.stripe_bytes)}"] if found.stripe_bytes is not None else []
    return ", ".join([*stripes, *sizes, *([found.shape.title] if found.shape else [])])


def configuration_text(configuration: Configuration) -> str:
    """Describe a configuration in words.

    >>> configuration_text((2, 16, 10**9, 16, 0)), configuration_text((2, 16, 10**9, 16, 4))
    ('2 node(s) x 8 rank(s), 1.000 GB each', '2 node(s) x 8 rank(s), 1.000 GB each, 4 stripes')
    """
    nodes, ranks, size, _, num_stripes = configuration
    stripes = f", {num_stripes} stripes" if num_stripes else ""
    return f"{nodes} node(s) x {ranks / nodes:g} rank(s), {decimal_bytes_text(size)} each{stripes}"


def setting_text(setting: Setting) -> str:
    """Describe a setting in words."""
    engine, block_bytes, io, shape = setting
    blocks = [f"blocks of {binary_bytes_text(block_bytes)}"] if block_bytes else []
    return ", ".join([engine, *blocks, f"{io} I/O", *([shape] if shape else [])])


def reasons_against(row: RunMeasurement, engine: str | None) -> Iterator[str]:
    """Why a row says nothing of the storage's limits."""
    found = row.measurement
    if not found.verified:
        yield f"failed verification (run {row.run_id})"
    elif found.cache_policy == "cached":
        yield "may have come from the page cache"
    elif found.limited_by == "generator":
        yield "waited for the payload generator"
    elif found.is_steady is False:
        yield "were still changing when the run ended"
    elif engine is not None and found.engine != engine:
        yield f"are of engine {found.engine}"


def corruption_sentence(results: Sequence[BenchmarkResult]) -> str | None:
    """Say that data came back other than it was written, which no rate makes up for; None where none did."""
    verified = [found.verified for result in results for found in result.measurements]
    if all(verified):
        return None
    return f"{verified.count(False)} of {len(verified)} measurements failed verification: {UNTIL_VERIFIED}"


@dataclass(frozen=True, slots=True)
class FitData:
    """The rows of one direction that are fitted together, and what was left out of them."""

    direction: Direction
    rows: tuple[RunMeasurement, ...]
    left_out: tuple[str, ...]

    @property
    def engine(self) -> str:
        """The engine of all rows."""
        return self.rows[0].measurement.engine

    @property
    def num_configurations(self) -> int:
        """Number of distinct configurations."""
        return len({row.configuration for row in self.rows})

    @property
    def demand(self) -> Demand:
        """What the rows asked of the storage, as arrays."""
        found = [row.measurement for row in self.rows]
        plans = [m.num_ranks if m.engine in PLANNING_ENGINES else 0 for m in found]
        writes = found if self.direction == "write" else []
        return Demand(
            total_bytes=_array([m.total_bytes for m in found]),
            num_streams=_array([m.num_ranks for m in found]),
            num_nodes=_array([m.num_nodes for m in found]),
            num_files=_array([row.num_files for row in self.rows]),
            num_planned_ranks=_array(plans),
            largest_over_mean=_array([_fullest_over_mean(m, m.num_ranks) for m in writes]) if writes else 1.0,
            fullest_node_over_mean=_array([_fullest_over_mean(m, m.num_nodes) for m in writes]) if writes else 1.0,
            num_stripes=self._num_stripes,
        )

    @property
    def _num_stripes(self) -> Floats | None:
        """Stripes of each row; None where all have as many, so that nothing tells their limit from that of a writer."""
        counts = [row.num_stripes for row in self.rows]
        return _array(counts) if min(counts) > 0 and len(set(counts)) > 1 else None

    @property
    def log_seconds(self) -> Floats:
        """Logarithm of the time of each row."""
        return np.log([row.seconds for row in self.rows])

    @property
    def repetition_noise(self) -> float:
        """Standard error of a row's median, from the spread of its repetitions: the median over the rows.

        1.253 is the ratio for medians of normal samples. Rows of fewer than three repetitions say nothing, and neither
        do those whose rate fell on the way.
        """
        errors = [
            1.253 * float(np.std(np.log(row.measurement.seconds), ddof=1)) / len(row.measurement.seconds) ** 0.5
            for row in self.rows
            if len(row.measurement.seconds) >= 3 and row.measurement.fall is None
        ]
        return statistics.median(errors) if errors else 0.0


def _fullest_over_mean(found: Measurement, num_units: int) -> float:
    """Bytes of the fullest of so many equal runs of ranks over their mean; 1 where the bytes of ranks are not known.

    It is rounded, as a few bytes of headers tell no limits apart. Restores count by means, as `restore_plans` has them.
    """
    if found.rank_bytes is None or found.num_ranks % num_units:
        return 1.0
    of_units = np.reshape(found.rank_bytes, (num_units, -1)).sum(axis=1)
    return round(float(of_units.max() * num_units / found.total_bytes), 3)


def select_fit_data(results: Sequence[BenchmarkResult], direction: Direction, *, engine: str | None = None) -> FitData:
    """The measurements of a direction that can be fitted together: those of the setting with the max of configurations.

    Args: `engine`, where another than that with the max of configurations is wanted.
    Raises InvalidInput where rows of one configuration contradict each other.
    """
    found = select_unchecked(results, direction, engine=engine)
    for slow, fast in contradictions(found.rows):
        raise InvalidInput.of(
            "measurements",
            f"contradict each other: {contradiction_text(slow, fast)}",
            value=None,
            remedy="remove the run that was measured on another state of the storage, or measure again",
        )
    return found


def select_unchecked(results: Sequence[BenchmarkResult], direction: Direction, *, engine: str | None = None) -> FitData:
    """The measurements that can be fitted together, those too that contradict each other."""
    rows = [
        RunMeasurement(result.run_id, measurement, _rank_nodes(result), target_of(result))
        for result in results
        for measurement in result.measurements
        if measurement.operation == OPERATIONS[direction]
    ]
    left_out = Counter(reason for row in rows for reason in reasons_against(row, engine))
    by_setting = _by_setting([row for row in rows if not any(reasons_against(row, engine))])
    setting = max(by_setting, key=lambda setting: _worth(by_setting[setting]), default=None)
    alike = by_setting.pop(setting) if setting is not None else []
    for other, rows_of_other in by_setting.items():
        left_out[f"have other settings ({setting_text(other)})"] += len(rows_of_other)
    fastest = list(_with_fastest_threads(alike))
    if len(fastest) < len(alike):
        left_out["used another number of threads and were slower"] += len(alike) - len(fastest)
    cache_bytes = min((fall.after_bytes for row in fastest if (fall := row.measurement.fall) is not None), default=0)
    chosen = [row for row in fastest if row.measurement.fall is not None or row.moved_bytes >= cache_bytes]
    if len(chosen) < len(fastest):
        reason = f"moved less in all repetitions than the {decimal_bytes_text(cache_bytes)} after which others fell"
        left_out[reason] += len(fastest) - len(chosen)
    reasons = (f"{count} {OPERATIONS[direction]} measurement(s) {reason}" for reason, count in left_out.items())
    return FitData(direction, tuple(chosen), tuple(reasons))


def target_of(result: BenchmarkResult) -> str:
    """Return the target of a run as `--target` takes it: several are separated by commas; empty where not recorded."""
    target = result.environment.get("target")
    return target.replace(", ", ",") if isinstance(target, str) else ""


def _rank_nodes(result: BenchmarkResult) -> tuple[str, ...]:
    names = result.environment.get("rank_nodes")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _worth(rows: Sequence[RunMeasurement]) -> tuple[bool, int, int, bool]:
    """Sort key of the rows of one setting: the plain workload first, then the setting with most configurations.

    Where engines have as many, the one counts that shows the storage and not a format.
    """
    first = rows[0].measurement
    return first.shape is None, len({row.configuration for row in rows}), len(rows), first.engine == RAW_ENGINE


def dates_of(results: Sequence[BenchmarkResult]) -> list[date]:
    """The dates of runs that have one."""
    return [result.started_at.date() for result in results if result.started_at is not None]


def _by_setting(rows: Sequence[RunMeasurement]) -> dict[Setting, list[RunMeasurement]]:
    """Rows that can be fitted together; those of either kind of I/O go with the larger group otherwise alike."""
    by_setting: dict[Setting, list[RunMeasurement]] = {}
    for row in rows:
        by_setting.setdefault(row.setting, []).append(row)
    for setting in [setting for setting in by_setting if setting[2] == "either"]:
        engine, block_bytes, io, shape = setting
        alike = [
            rows
            for other, rows in by_setting.items()
            if (other[0], other[1], other[3]) == (engine, block_bytes, shape) and other[2] != io
        ]
        if alike:
            max(alike, key=len).extend(by_setting.pop(setting))
    return by_setting


def _with_fastest_threads(rows: Sequence[RunMeasurement]) -> Iterator[RunMeasurement]:
    """Keep the rows of each configuration with the number of threads that was fastest.

    Engines use fewer threads for small files, so that configurations may differ in it.
    """
    by_configuration: dict[Configuration, list[RunMeasurement]] = {}
    for row in rows:
        by_configuration.setdefault(row.configuration, []).append(row)
    best = {
        configuration: min(same, key=lambda row: row.seconds).measurement.threads_per_rank
        for configuration, same in by_configuration.items()
    }
    return (row for row in rows if row.measurement.threads_per_rank == best[row.configuration])


def contradictions(rows: Sequence[RunMeasurement]) -> Iterator[tuple[RunMeasurement, RunMeasurement]]:
    """The slow and the fast row of each pair that cannot be the same storage in the same state.

    The nearest ends of their own intervals differ by more than CONTRADICTION_RATIO, not only their medians.
    """
    for slow, fast in unlike_pairs(rows):
        if slow.seconds_interval[0] > CONTRADICTION_RATIO * fast.seconds_interval[1]:
            yield slow, fast


def unlike_pairs(rows: Sequence[RunMeasurement]) -> Iterator[tuple[RunMeasurement, RunMeasurement]]:
    """The slow and the fast row of each pair of one configuration whose medians differ by CONTRADICTION_RATIO."""
    by_configuration: dict[Configuration, list[RunMeasurement]] = {}
    for row in rows:
        by_configuration.setdefault(row.configuration, []).append(row)
    for same in by_configuration.values():
        by_time = [(row.seconds, row) for row in sorted(same, key=lambda row: row.seconds)]
        for slow_seconds, slow in reversed(by_time):
            for fast_seconds, fast in by_time:
                if slow_seconds <= CONTRADICTION_RATIO * fast_seconds:
                    break
                yield slow, fast


def contradiction_text(slow: RunMeasurement, fast: RunMeasurement) -> str:
    """What two rows say of one configuration, in words."""
    return (
        f"the {slow.measurement.operation} of {configuration_text(slow.configuration)} took "
        f"{fast.seconds:.3g} s in run {fast.run_id} and {slow.seconds:.3g} s in run {slow.run_id}"
    )


def _array(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)
