"""The rates of all limits of one direction that go together: as fast as each other, none faster than needed.

A transfer takes its serial steps and, of what all bytes pass through at once, the slowest. So one time s, in which each
limit alone would move all bytes, gives the min rate of every limit at once. Only the adapters of the nodes, and
processes whose own work limits, have a rate that no storage raises: no rate above what they carry is asked for. A cache
that is full drains at a rate of its own, and a storage target takes its stripes at one, which these rates do not raise
either. Where contention slows down the file system, its rate is that of one writer. With a soft knee of power p the m
limits take m^(1/p) s together; what no rate raises, itself a p-norm, is then added, as a p-norm is at most the sum of
those of its parts: the rates are enough, and in that case more than needed.

Where a save is followed by an export, or a restore has several steps, one step may need more of a single node or writer
than the other. Then the rates of nodes and writers as given stay if they are enough, and the file system alone gets its
min rate (`beside_given`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sizing.storage.limits import Demand, Direction, serial_steps
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import TERMS, Rates, Unit, rate_names
from sizing.storage.terms import Terms, file_system_bytes, shared_terms
from sizing.storage.transfer import Numbers, combined_seconds

FILE_SYSTEM = "file_system_bytes_per_second"
NODE = "node_bytes_per_second"
_RAISED_UNITS: tuple[Unit, ...] = ("system", "node", "stream")
"""The units whose rates are raised together."""


@dataclass(frozen=True, slots=True)
class JointRates:
    """The limits of one direction, as shares of one time. Dictionaries have them by their names in `Rates`.

    `parts` is what the fullest unit of each limit moves in each step, a node's also where no rate of a node is known;
    `unit_bytes` is what it moves over all steps: the whole file system, the fullest node, the largest stream;
    `max_rates` what the adapters let it move, infinite where they do not limit. `steps` are the times of the steps per
    second of s: 1 for one step, in sum more where the steps have unlike limits; `held_seconds` what each takes through
    the adapters, or of its processes, or to drain a full cache, or of its stripes, or at the rates of nodes and
    writers where these stay as given (`keeps_given`); `kept_rates` are of those that also move something alone.
    `stream_seconds` is what one stream then moves alone per second of s, `serial_seconds` what no rate shortens.
    """

    direction: Direction
    total_bytes: Numbers
    unit_bytes: dict[str, Numbers]
    max_rates: dict[str, Numbers]
    steps: tuple[Numbers, ...]
    held_seconds: tuple[Numbers, ...]
    stream_seconds: Numbers
    serial_seconds: Numbers
    parts: dict[str, tuple[Numbers, ...]]
    keeps_given: bool = False
    kept_rates: dict[str, Numbers] = field(default_factory=dict)

    def rates(self, shared_seconds: Numbers) -> dict[str, Numbers]:
        """The rate of each limit that alone moves all bytes in that time, or as fast as the adapters do.

        Where nodes and writers keep the rates as given, only the file system's; theirs are what the steps then need.
        """
        if self.keeps_given:
            others = [name for name in self.unit_bytes if name != FILE_SYSTEM]
            rates = {name: self.unit_rate(name, shared_seconds) for name in others} | self.kept_rates
            return {FILE_SYSTEM: np.divide(self.unit_bytes[FILE_SYSTEM], shared_seconds)} | rates
        return {
            name: np.minimum(np.divide(size, shared_seconds), self.max_rates[name])
            for name, size in self.unit_bytes.items()
        }

    def unit_rate(self, name: str, shared_seconds: Numbers) -> Numbers:
        """The min rate of one unit of a limit at which no step takes longer than it does without that limit."""
        durations = self.step_seconds(shared_seconds)
        return functools.reduce(np.maximum, map(np.divide, self.parts[name], durations))

    def step_seconds(self, shared_seconds: Numbers) -> tuple[Numbers, ...]:
        """How long each step takes where all limits have time s for all bytes."""
        pairs = zip(self.steps, self.held_seconds, strict=True)
        return tuple(np.maximum(step * shared_seconds, held) for step, held in pairs)

    def shared_seconds(self, seconds: Numbers) -> Numbers:
        """The max s for a transfer of `seconds`; not above 0 where there is none."""
        left = np.subtract(seconds, self.serial_seconds)
        return self.weighted_seconds(left, [1.0] * len(self.steps), stream_weight=1.0)

    def weighted_seconds(self, seconds: Numbers, weights: Sequence[Numbers], *, stream_weight: Numbers) -> Numbers:
        """The max s with which the steps, each as often as its weight says, take `seconds`; not above 0 without one.

        Infinite where no step counts. Without adapters t / (steps + stream). Steps that are held longer than s take
        their time from t and not their part of s. As s then shrinks, more steps may be such: after as many rounds as
        steps none.
        """
        steps = [weight * step for weight, step in zip(weights, self.steps, strict=True)]
        all_held = [weight * held for weight, held in zip(weights, self.held_seconds, strict=True)]
        stream = stream_weight * self.stream_seconds
        together = sum(steps, start=np.float64(0.0)) + stream
        counts = np.greater(together, 0.0)
        shared = _divide(seconds, together)
        for _ in self.steps if any(map(np.any, all_held)) else ():
            some = np.maximum(shared, -1.0)  # a step that counts for nothing takes no part of a time without end
            held = [np.greater(net, step * some) for step, net in zip(steps, all_held, strict=True)]
            fixed = sum((np.where(is_held, net, 0.0) for is_held, net in zip(held, all_held, strict=True)))
            free = sum((np.where(is_held, 0.0, step) for is_held, step in zip(held, steps, strict=True)))
            shared = _divide(seconds - fixed, free + stream)
        return np.where(counts, shared, np.inf)

    def alternatives(self, profile: StorageProfile | None) -> tuple[JointRates, ...]:
        """These rates, and before them, of several steps, those beside the rates of nodes and writers as given."""
        beside = self.beside_given(profile) if len(self.steps) > 1 else None
        return (self,) if beside is None else (beside, self)

    def beside_given(self, profile: StorageProfile | None) -> JointRates | None:
        """Rates beside those of nodes and writers that the profile gives, which stay; None where it gives none.

        Also None with a soft knee, with which rates that are given still take a part of the time.
        """
        given = profile.rates(self.direction) if profile else Rates()
        rates = {name: getattr(given, name) for name in self.unit_bytes if name != FILE_SYSTEM}
        if not rates or given.knee_power is not None:
            return None
        held = [
            functools.reduce(np.maximum, (self.parts[name][number] / rate for name, rate in rates.items()), net)
            for number, net in enumerate(self.held_seconds)
        ]
        unit, stream = self.unit_bytes[FILE_SYSTEM], _stream_rate(given)
        moves_alone = stream is not None and np.any(self.stream_seconds)
        kept = {stream: rates[stream]} if stream is not None and moves_alone else {}
        alone = sum(self.stream_seconds * self.unit_bytes[name] / rate for name, rate in kept.items())
        return replace(
            self,
            steps=tuple(part / unit for part in self.parts[FILE_SYSTEM]),
            held_seconds=tuple(held),
            stream_seconds=0.0,
            serial_seconds=self.serial_seconds + alone,
            keeps_given=True,
            kept_rates=kept,
        )


def joint_rates(profile: StorageProfile | None, demands: Sequence[Demand], *, direction: Direction) -> JointRates:
    """The limits that a profile gives for a direction, and that of the file system, which every storage has."""
    rates = profile.rates(direction) if profile else Rates()
    stream = _stream_rate(rates)
    demands = [replace(each, process_bytes_per_second=each.process_bytes_per_second_at(rates)) for each in demands]
    names = [FILE_SYSTEM, *rates.known("shared", "node"), *([stream] if stream else [])]
    parts = {name: [_unit_bytes(name, demand) for demand in demands] for name in names}
    parts[FILE_SYSTEM] = [np.float64(file_system_bytes(rates, demand)) for demand in demands]
    unit_bytes = {name: sum(sizes, start=np.float64(0.0)) for name, sizes in parts.items()}
    held = tuple(
        combined_seconds(0.0, *kept_terms(rates, demand).values(), knee_power=rates.knee_power) for demand in demands
    )
    has_knee = rates.knee_power is not None
    together = len(names) ** np.divide(1.0, np.inf if rates.knee_power is None else rates.knee_power)
    of_nodes = {NODE: [_unit_bytes(NODE, demand) for demand in demands]}
    steps = tuple(
        together * functools.reduce(np.maximum, (sizes[number] / unit_bytes[name] for name, sizes in parts.items()))
        for number in range(len(demands))
    )
    alone = sum((demand.metadata_bytes for demand in demands), start=np.float64(0.0))
    without_stream = rates._replace(**dict.fromkeys(rate_names("shared", "stream")))
    serial = sum(serial_steps(without_stream, demands).values(), start=np.float64(0.0))
    return JointRates(
        direction=direction,
        total_bytes=unit_bytes[FILE_SYSTEM],
        unit_bytes=unit_bytes,
        max_rates={name: np.inf if has_knee else _max_rate(name, demands) for name in names},
        steps=steps,
        held_seconds=(0.0,) * len(demands) if has_knee else held,
        stream_seconds=alone / unit_bytes[stream] if stream else 0.0,
        serial_seconds=serial + (sum(held) if has_knee else 0.0),
        parts={name: tuple(sizes) for name, sizes in (of_nodes | parts).items()},
    )


def kept_terms(rates: Rates, demand: Demand) -> Terms:
    """Seconds of each resource that all bytes pass through and that no rate of joint rates makes faster.

    Source: `terms.shared_terms`.

    >>> kept_terms(Rates(file_system_bytes_per_second=4.0), Demand(8.0, 1, 1, 1, node_network_bytes_per_second=2.0))
    {'storage-network': np.float64(4.0)}
    """
    return shared_terms(rates._replace(**dict.fromkeys(rate_names("shared", *_RAISED_UNITS))), demand)


def _stream_rate(rates: Rates) -> str | None:
    return next(iter(rates.known("shared", "stream")), None)


def _divide(seconds: Numbers, by: Numbers) -> Numbers:
    """A quotient; below 0 where nothing is left to divide by, as adapters alone take all the time."""
    return np.where(np.greater(by, 0.0), np.divide(seconds, np.where(np.greater(by, 0.0), by, 1.0)), -np.inf)


def _share(name: str, demand: Demand) -> Numbers:
    """The share of a demand's bytes that passes through the fullest node, the largest stream, or the file system.

    Which of these it is, the unit of the rate `name` says; of the file system it is 1.
    """
    num_units, fullest_over_mean = demand.units(TERMS[name].unit)
    return np.divide(fullest_over_mean, num_units)


def _unit_bytes(name: str, demand: Demand) -> Numbers:
    return np.float64(demand.total_bytes) * _share(name, demand)


def _max_rate(name: str, demands: Sequence[Demand]) -> Numbers:
    """The rate in bytes per second above which raising `name` gains nothing; infinite where it always gains.

    The adapters of a node and the process of a writer carry so much of one node's, stream's or the file system's share,
    in the step in which that is most.
    """
    carried = (
        _share(name, demand)
        * np.minimum(
            _all_bytes_per_second(
                demand.node_network_bytes_per_second, demand.num_nodes, demand.fullest_node_over_mean
            ),
            _all_bytes_per_second(demand.process_bytes_per_second, demand.num_streams, demand.largest_over_mean),
        )
        for demand in demands
    )
    return functools.reduce(np.maximum, carried)


def _all_bytes_per_second(unit_rate: Numbers | None, num_units: Numbers, largest_over_mean: Numbers) -> Numbers:
    """Rate of all units of a rate, the fullest of which is the last; infinite where they do not limit."""
    return np.inf if unit_rate is None else unit_rate * np.divide(num_units, largest_over_mean)
