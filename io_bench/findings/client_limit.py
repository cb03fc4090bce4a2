"""Whether storage limited a rate, or the client that wrote to it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from io_bench.planning.plan import Plan
from io_bench.repetition.stopwatch import Timing
from sizing.storage.measurement import LimitedBy

GENERATOR_BOUND_FRACTION = 0.05
"""A choice: below, the rate is at most that much too low, which is about the noise of storage."""
CLIENT_BOUND_CPU_FRACTION = 0.9
"""A choice: the rest of a CPU goes to interrupts and to what else runs on a node, so that no process sees all of it."""
STORAGE_BOUND_RATIO = 2.0
"""The client without storage is this much faster where storage takes more of the time than the client does."""


def limited_by(
    bytes_per_second: float, *, null_sink: float | None, generator_wait: float | None, client_cpu: float
) -> LimitedBy | None:
    """What limited a rate, as far as it shows; None for a restore by a client that was not busy.

    The generator where writers waited for more than 5 % of their time; the client where, with writes discarded, it is
    not twice as fast, or where its CPUs are over 90 % busy; else the storage. At a ratio of two, a client that copies
    and writes by turns spends half of its time on either.

    >>> limited_by(1e9, null_sink=3e9, generator_wait=0.01, client_cpu=0.5)
    'storage'
    >>> limited_by(1e9, null_sink=1.5e9, generator_wait=None, client_cpu=0.5)
    'client'
    """
    if generator_wait is not None and generator_wait > GENERATOR_BOUND_FRACTION:
        return "generator"
    if null_sink is not None and null_sink < STORAGE_BOUND_RATIO * bytes_per_second:
        return "client"
    if client_cpu > CLIENT_BOUND_CPU_FRACTION:
        return "client"
    return None if null_sink is None else "storage"


def cpu_fraction(timings: Sequence[Timing], plan: Plan) -> float:
    """CPU time of a node's writers over the time of their CPUs: the busiest node, the median over the repetitions."""
    nodes = plan.writers.nodes

    def busiest(timing: Timing) -> float:
        cpu_seconds = dict.fromkeys(nodes, 0.0)
        for node, seconds in zip(nodes, timing.cpu_seconds, strict=True):
            cpu_seconds[node] += seconds
        return max(seconds / (timing.seconds * plan.cpus_of_node[node]) for node, seconds in cpu_seconds.items())

    return min(1.0, statistics.median(map(busiest, timings)))


def thread_fraction(timings: Sequence[Timing]) -> float:
    """CPU time of the busiest writer over the time of one CPU, the median over the repetitions."""
    return min(1.0, statistics.median(max(timing.cpu_seconds) / timing.seconds for timing in timings))
