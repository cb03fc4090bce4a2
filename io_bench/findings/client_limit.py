"""What of the client and its node was in use, as fractions of the time or of what there is."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from io_bench.planning.plan import Plan
from io_bench.repetition.stopwatch import Timing

GENERATOR_BOUND_FRACTION = 0.05
"""A choice: below, the rate is at most that much too low, which is about the noise of storage."""
CLIENT_BOUND_CPU_FRACTION = 0.9
"""A choice: the rest of a CPU goes to interrupts and to what else runs on a node, so that no process sees all of it."""
STORAGE_BOUND_RATIO = 2.0
"""The client without storage is this much faster where storage takes more of the time than the client does."""


def cpu_fractions(timings: Sequence[Timing], plan: Plan) -> list[float]:
    """CPU time of a node's writers over the time of their CPUs: the busiest node, in each repetition."""
    nodes = plan.writers.nodes

    def busiest(timing: Timing) -> float:
        cpu_seconds = dict.fromkeys(nodes, 0.0)
        for node, seconds in zip(nodes, timing.cpu_seconds, strict=True):
            cpu_seconds[node] += seconds
        return max(seconds / (timing.seconds * plan.cpus_of_node[node]) for node, seconds in cpu_seconds.items())

    return [min(1.0, busiest(timing)) for timing in timings]


def thread_fractions(timings: Sequence[Timing]) -> list[float]:
    """CPU time of the busiest writer over the time of one CPU, in each repetition."""
    return [min(1.0, max(timing.cpu_seconds) / timing.seconds) for timing in timings]


def busy_thread_fractions(timings: Sequence[Timing]) -> list[float] | None:
    """The part of its time in which the busiest thread of the slowest rank needed a CPU, in each repetition."""
    of_slowest = ([strain.ready_seconds for strain in timing.strains][timing.slowest :][:1] for timing in timings)
    return _each([_of_time(ready, timing) for ready, timing in zip(of_slowest, timings, strict=True)])


def run_delay_fractions(timings: Sequence[Timing]) -> list[float] | None:
    """The part of its time for which the busiest thread of a rank had no CPU: the worst rank, in each repetition."""
    return _each([_of_time([strain.delay_seconds for strain in timing.strains], timing) for timing in timings])


def throttled_fractions(timings: Sequence[Timing]) -> list[float] | None:
    """The part of the time in whose periods a control group had no CPU time left: the worst rank, each repetition."""
    return _each([_of_time([strain.throttled_seconds for strain in timing.strains], timing) for timing in timings])


def link_fractions(timings: Sequence[Timing]) -> list[float] | None:
    """The part of its link's rate that the busiest network adapter of any node carried, in each repetition."""
    return _each([_of_time([strain.link_seconds for strain in timing.strains], timing) for timing in timings])


def rank_cpu_seconds(timings: Sequence[Timing]) -> list[float]:
    """CPU time of each writer, the median over the repetitions."""
    return [statistics.median(seconds) for seconds in zip(*(timing.cpu_seconds for timing in timings), strict=True)]


def _of_time(seconds: Sequence[float | None], timing: Timing) -> float | None:
    """The largest of those that are known, as a part of the time; None where none is."""
    known = [each for each in seconds if each is not None]
    return min(1.0, max(known) / timing.seconds) if known else None


def _each(fractions: Sequence[float | None]) -> list[float] | None:
    """All of them; None unless every repetition has one."""
    known = [each for each in fractions if each is not None]
    return known if known and len(known) == len(fractions) else None
