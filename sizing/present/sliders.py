"""Sliders: the inputs that people try by dragging, and the values that each goes through, as they are typed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from sizing.cluster.cluster import resolve_node
from sizing.scenario import Scenario
from sizing.storage.catalog import storage_profiles
from sizing.storage.transfer import as_number
from sizing.units import parse_bytes_per_second, parse_seconds

_INTERVALS = [
    "1min",
    "2min",
    "3min",
    "4min",
    "5min",
    "6min",
    "8min",
    "10min",
    "12min",
    "15min",
    "20min",
    "25min",
    "30min",
    "40min",
    "50min",
    "1h",
    "1.5h",
    "2h",
    "2.5h",
    "3h",
    "4h",
    "5h",
    "6h",
    "8h",
    "10h",
    "12h",
    "18h",
    "1d",
    "1.5d",
    "2d",
    "3d",
    "4d",
    "5d",
    "7d",
]
"""Intervals as people count time, from a minute to a week."""
_PREFERRED = (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8)
"""Ten preferred numbers to a decade, equal steps of a ratio (the series R10 of ISO 3; 3.15 with three digits)."""
_DATA_DEGREES = (
    1,
    2,
    3,
    4,
    5,
    6,
    8,
    10,
    12,
    14,
    *(step * 2**power for power in range(4, 18) for step in (1, 1.25, 1.5, 1.75)),
)
"""Replicas: each power of two and the quarters up to the next."""
_MAX_GPUS = 2**17
"""Max GPUs of a slider, above the 100,000 GPUs of the largest clusters that train one model."""


class Slider(NamedTuple):
    """An input and the values that its slider goes through."""

    field: str
    """Path in the scenario."""
    steps: tuple[str, ...]
    """Values as they are typed, ascending."""
    position: int | None
    """Number of the step nearest by ratio to the value that the answer holds for, from 0; None without a value."""


def list_sliders(scenario: Scenario) -> tuple[Slider, ...]:
    """List the sliders of a scenario: interval, write bandwidth and, on nodes of one kind, GPUs."""
    profile = scenario.storage.profile if scenario.storage is not None else None
    bandwidth = as_number(profile.write.file_system_bytes_per_second) if profile is not None else None
    intervals = {text: parse_seconds(text) for text in _INTERVALS}
    every = (
        _slider("checkpoint.interval_seconds", intervals, scenario.checkpoint.interval_seconds),
        _slider("storage.profile.write_bytes_per_second", _bandwidth_steps(), bandwidth),
    )
    if scenario.cluster.nodes is not None:
        return every
    replica = math.lcm(scenario.parallelism.model_parallel_size, resolve_node(scenario.cluster).spec.gpus_per_node)
    counts = [round(replica * degree) for degree in _DATA_DEGREES if degree == 1 or replica * degree <= _MAX_GPUS]
    num_gpus = scenario.cluster.num_gpus or scenario.parallelism.num_gpus
    return *every, _slider("cluster.num_gpus", {str(count): count for count in counts}, num_gpus)


def _bandwidth_steps() -> dict[str, float]:
    """List preferred numbers over the decades in which published file systems write."""
    published = [entry.profile.write.file_system_bytes_per_second for entry in storage_profiles().values()]
    rates = [rate for rate in published if rate is not None]
    first, last = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    numbers = [number * 10**power / 1e9 for power in range(first, last) for number in _PREFERRED]
    texts = [f"{number:g} GB/s" for number in (*numbers, 10**last / 1e9)]
    return {text: parse_bytes_per_second(text) for text in texts}


def _slider(field: str, steps: Mapping[str, float], value: float | None) -> Slider:
    if value is None:
        return Slider(field, tuple(steps), None)
    numbers = list(steps.values())
    return Slider(field, tuple(steps), min(range(len(numbers)), key=lambda at: abs(math.log(numbers[at] / value))))
