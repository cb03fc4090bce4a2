"""The inputs that people try by dragging: the values that a slider goes through, as they are typed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from sizing.cluster.cluster import resolve_node
from sizing.scenario import Scenario
from sizing.storage.catalog import storage_profiles
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
"""As people count time, from a minute to a week."""
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
"""Above the 100,000 GPUs of the largest clusters that train one model."""


class Slider(NamedTuple):
    """An input and the values that it is dragged through."""

    field: str
    """Path in the scenario."""
    steps: tuple[str, ...]
    """As they are typed, ascending."""
    position: int | None
    """Of the step nearest to the value that the answer holds for, by ratio, from 0; none where there is no value."""


def sliders(scenario: Scenario) -> tuple[Slider, ...]:
    """Interval, write bandwidth and, on nodes of one kind, GPUs."""
    profile = scenario.storage.profile if scenario.storage is not None else None
    bandwidth = profile.write_bytes_per_second if profile is not None else None
    interval = scenario.checkpoint.interval_seconds
    every = (
        _slider("checkpoint.interval_seconds", _INTERVALS, [parse_seconds(text) for text in _INTERVALS], interval),
        _slider("storage.profile.write_bytes_per_second", *_bandwidths(), bandwidth),
        _slider("cluster.num_gpus", *_gpus(scenario), scenario.cluster.num_gpus or scenario.parallelism.num_gpus),
    )
    return every if scenario.cluster.nodes is None else every[:-1]


def _bandwidths() -> tuple[list[str], list[Any]]:
    """The decades in which published file systems write."""
    published = [entry.profile.write_bytes_per_second for entry in storage_profiles().values()]
    rates = [rate for rate in published if rate is not None]
    first, last = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    numbers = [number * 10**power / 1e9 for power in range(first, last) for number in _PREFERRED]
    texts = [f"{number:g} GB/s" for number in (*numbers, 10**last / 1e9)]
    return texts, [parse_bytes_per_second(text) for text in texts]


def _gpus(scenario: Scenario) -> tuple[list[str], list[int]]:
    """Whole replicas on whole nodes, as the model is cut now."""
    one = math.lcm(scenario.parallelism.model_parallel_size, resolve_node(scenario.cluster).spec.gpus_per_node)
    counts = [round(one * degree) for degree in _DATA_DEGREES if degree == 1 or one * degree <= _MAX_GPUS]
    return [str(count) for count in counts], counts


def _slider(field: str, texts: Sequence[str], values: Sequence[float], value: float | None) -> Slider:
    if value is None:
        return Slider(field, tuple(texts), None)
    return Slider(field, tuple(texts), min(range(len(values)), key=lambda at: abs(math.log(values[at] / value))))
