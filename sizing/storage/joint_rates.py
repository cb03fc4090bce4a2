"""The rates of all limits of one direction that go together: as fast as each other, none faster than needed.

A transfer takes its serial steps and, of what all bytes pass through at once, the slowest. So one time s, in which each
limit alone would move all bytes, gives the min rate of every limit at once. Only the adapters of the nodes have a rate
that no storage raises: no rate above what they carry is asked for. A cache that is full drains at a rate of its own,
which these rates do not raise either. Where contention slows down the file system, its rate is that of one writer. With
a soft knee of power p the m limits take m^(1/p) s together; what no rate raises is then added, as a p-norm is at most
the sum: the rates are enough, and in that case a little more.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.limits import Demand, Direction, serial_steps
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import RateField, Rates
from sizing.storage.terms import drained_seconds, file_system_bytes
from sizing.storage.transfer import Numbers

FILE_SYSTEM_RATES: dict[Direction, RateField] = {
    "write": "write_bytes_per_second",
    "read": "read_bytes_per_second",
}
_NODE_RATES: dict[Direction, tuple[RateField, ...]] = {
    "write": ("node_write_bytes_per_second", "node_buffered_write_bytes_per_second"),
    "read": ("node_read_bytes_per_second", "node_buffered_read_bytes_per_second"),
}
_STREAM_RATES: dict[Direction, tuple[RateField, RateField]] = {
    "write": ("writer_buffered_write_bytes_per_second", "writer_write_bytes_per_second"),
    "read": ("writer_buffered_read_bytes_per_second", "writer_read_bytes_per_second"),
}
"""Of one stream; where both are given the first counts, as in `Rates.stream_bytes_per_second`."""


@dataclass(frozen=True, slots=True)
class JointRates:
    """The limits of one direction, as shares of one time.

    `unit_bytes` is what one unit of each limit moves over all steps: the whole file system, one node, one stream;
    `max_rates` what the adapters let it move, infinite where they do not limit. `steps` are the times of the steps
    per second of s: 1 for one step, in sum more where the steps have unlike limits; `held_seconds` what each takes
    through the adapters, or to drain a full cache. `stream_seconds` is what one stream then moves alone per second of
    s, `serial_seconds` what no rate shortens.
    """

    total_bytes: Numbers
    unit_bytes: dict[RateField, Numbers]
    max_rates: dict[RateField, Numbers]
    steps: tuple[Numbers, ...]
    held_seconds: tuple[Numbers, ...]
    stream_seconds: Numbers
    serial_seconds: Numbers

    def rates(self, shared_seconds: Numbers) -> dict[RateField, Numbers]:
        """The rate of each limit that alone moves all bytes in that time, or as fast as the adapters do."""
        return {
            field: np.minimum(np.divide(size, shared_seconds), self.max_rates[field])
            for field, size in self.unit_bytes.items()
        }

    def shared_seconds(self, seconds: Numbers) -> Numbers:
        """The max s for a transfer of `seconds`; not above 0 where there is none.

        Without adapters (t - serial) / (steps + stream). Steps that these hold longer than s does take their time
        from t and not their part of s. As s then shrinks, more steps may be such: after as many rounds as steps none.
        """
        left = np.subtract(seconds, self.serial_seconds)
        shared = left / (sum(self.steps, start=np.float64(0.0)) + self.stream_seconds)
        for _ in self.steps if any(map(np.any, self.held_seconds)) else ():
            held = [np.greater(net, step * shared) for step, net in zip(self.steps, self.held_seconds, strict=True)]
            fixed = sum((np.where(is_held, net, 0.0) for is_held, net in zip(held, self.held_seconds, strict=True)))
            free = sum((np.where(is_held, 0.0, step) for is_held, step in zip(held, self.steps, strict=True)))
            shared = _divided(left - fixed, free + self.stream_seconds)
        return shared


def joint_rates(profile: StorageProfile | None, demands: Sequence[Demand], *, direction: Direction) -> JointRates:
    """The limits that a profile gives for a direction, and that of the file system, which every storage has."""
    stream = _stream_rate(profile, direction)
    fields = [
        FILE_SYSTEM_RATES[direction],
        *(field for field in _NODE_RATES[direction] if _is_given(profile, field)),
        *([stream] if stream else []),
    ]
    parts = {field: [_unit_bytes(field, demand) for demand in demands] for field in fields}
    file_system = FILE_SYSTEM_RATES[direction]
    rates = profile.rates(direction) if profile else Rates()
    parts[file_system] = [np.float64(file_system_bytes(rates, demand)) for demand in demands]
    unit_bytes = {field: sum(sizes, start=np.float64(0.0)) for field, sizes in parts.items()}
    held = tuple(np.maximum(demand.network_seconds, drained_seconds(rates, demand)) for demand in demands)
    has_knee = rates.knee_power is not None
    together = len(fields) ** np.divide(1.0, np.inf if rates.knee_power is None else rates.knee_power)
    steps = tuple(
        together * functools.reduce(np.maximum, (sizes[number] / unit_bytes[field] for field, sizes in parts.items()))
        for number in range(len(demands))
    )
    alone = sum((demand.metadata_bytes for demand in demands), start=np.float64(0.0))
    return JointRates(
        total_bytes=unit_bytes[file_system],
        unit_bytes=unit_bytes,
        max_rates={field: np.inf if has_knee else _max_rate(field, demands) for field in fields},
        steps=steps,
        held_seconds=(0.0,) * len(demands) if has_knee else held,
        stream_seconds=alone / unit_bytes[stream] if stream else 0.0,
        serial_seconds=_serial_seconds(rates, demands) + (sum(held) if has_knee else 0.0),
    )


def _stream_rate(profile: StorageProfile | None, direction: Direction) -> RateField | None:
    return next((field for field in _STREAM_RATES[direction] if _is_given(profile, field)), None)


def _is_given(profile: StorageProfile | None, field: RateField) -> bool:
    return getattr(profile, field, None) is not None


def _divided(seconds: Numbers, by: Numbers) -> Numbers:
    """A quotient; below 0 where nothing is left to divide by, as adapters alone take all the time."""
    return np.where(np.greater(by, 0.0), np.divide(seconds, np.where(np.greater(by, 0.0), by, 1.0)), -np.inf)


def _num_units(field: RateField, demand: Demand) -> Numbers:
    if field.startswith("node_"):
        return demand.num_nodes
    return demand.num_streams if field.startswith("writer_") else 1


def _unit_bytes(field: RateField, demand: Demand) -> Numbers:
    return np.divide(np.float64(demand.total_bytes), _num_units(field, demand))


def _max_rate(field: RateField, demands: Sequence[Demand]) -> Numbers:
    """What the adapters of all nodes of a step let one unit of the limit move, in the step where that is most."""
    carried = (
        np.inf
        if demand.node_network_bytes_per_second is None
        else demand.node_network_bytes_per_second * demand.num_nodes / _num_units(field, demand)
        for demand in demands
    )
    return functools.reduce(np.maximum, carried)


def _serial_seconds(rates: Rates, demands: Sequence[Demand]) -> Numbers:
    """What nothing overlaps and no rate of the joint ones shortens, planning included where no storage is given."""
    without_stream = rates._replace(writer_bytes_per_second=None, writer_buffered_bytes_per_second=None)
    return sum(serial_steps(without_stream, demands).values(), start=np.float64(0.0))
