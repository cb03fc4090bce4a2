"""What limits saves, or restores: the rates and times of one direction, each under one name that type checks.

Documents name a direction in each field (`node_write_bytes_per_second`). Here the direction is chosen once, and
everything after it asks for `node_bytes_per_second`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from sizing.storage.transfer import Numbers

Direction = Literal["write", "read"]
DIRECTIONS: tuple[Direction, ...] = ("write", "read")

RateField = Literal[
    "write_bytes_per_second",
    "read_bytes_per_second",
    "node_write_bytes_per_second",
    "node_read_bytes_per_second",
    "node_buffered_write_bytes_per_second",
    "node_buffered_read_bytes_per_second",
    "writer_write_bytes_per_second",
    "writer_read_bytes_per_second",
    "writer_buffered_write_bytes_per_second",
    "writer_buffered_read_bytes_per_second",
    "device_to_host_bytes_per_second",
    "files_per_second",
    "read_files_per_second",
    "file_write_seconds",
    "file_read_seconds",
    "planning_seconds_per_rank",
    "read_planning_seconds_per_rank",
    "commit_seconds",
    "fixed_write_seconds",
    "fixed_read_seconds",
    "writer_write_contention_fraction",
    "writer_read_contention_fraction",
    "node_write_contention_fraction",
    "node_read_contention_fraction",
    "write_cache_bytes",
    "read_cache_bytes",
    "beyond_cache_write_bytes_per_second",
    "beyond_cache_read_bytes_per_second",
    "stripe_write_bytes_per_second",
    "stripe_read_bytes_per_second",
    "write_stripe_count",
    "read_stripe_count",
    "write_knee_power",
    "read_knee_power",
]
"""The fields of a StorageProfile that hold a figure of the transfer model."""


class Rates(NamedTuple):
    """The figures of a StorageProfile in one direction, numbers or arrays. What is None does not limit.

    `node_buffered` and `writer_buffered` hold where streams go through the page cache. Only saves copy from device to
    host and commit.
    """

    file_system_bytes_per_second: Numbers | None = None
    node_bytes_per_second: Numbers | None = None
    node_buffered_bytes_per_second: Numbers | None = None
    writer_bytes_per_second: Numbers | None = None
    writer_buffered_bytes_per_second: Numbers | None = None
    device_to_host_bytes_per_second: Numbers | None = None
    files_per_second: Numbers | None = None
    file_seconds: Numbers | None = None
    planning_seconds_per_rank: Numbers | None = None
    commit_seconds: Numbers | None = None
    fixed_seconds: Numbers | None = None
    writer_contention_fraction: Numbers | None = None
    node_contention_fraction: Numbers | None = None
    cache_bytes: Numbers | None = None
    beyond_cache_bytes_per_second: Numbers | None = None
    stripe_bytes_per_second: Numbers | None = None
    stripe_count: Numbers | None = None
    knee_power: Numbers | None = None

    @property
    def has_contention(self) -> bool:
        """Whether further writers or nodes slow down the file system."""
        return self.writer_contention_fraction is not None or self.node_contention_fraction is not None

    @property
    def stream_bytes_per_second(self) -> Numbers | None:
        """Of one writer or reader: through the page cache where that rate is known."""
        buffered = self.writer_buffered_bytes_per_second
        return self.writer_bytes_per_second if buffered is None else buffered


_FIELDS: Mapping[Direction, Mapping[str, RateField]] = {
    "write": {
        "file_system_bytes_per_second": "write_bytes_per_second",
        "node_bytes_per_second": "node_write_bytes_per_second",
        "node_buffered_bytes_per_second": "node_buffered_write_bytes_per_second",
        "writer_bytes_per_second": "writer_write_bytes_per_second",
        "writer_buffered_bytes_per_second": "writer_buffered_write_bytes_per_second",
        "device_to_host_bytes_per_second": "device_to_host_bytes_per_second",
        "files_per_second": "files_per_second",
        "file_seconds": "file_write_seconds",
        "planning_seconds_per_rank": "planning_seconds_per_rank",
        "commit_seconds": "commit_seconds",
        "fixed_seconds": "fixed_write_seconds",
        "writer_contention_fraction": "writer_write_contention_fraction",
        "node_contention_fraction": "node_write_contention_fraction",
        "cache_bytes": "write_cache_bytes",
        "beyond_cache_bytes_per_second": "beyond_cache_write_bytes_per_second",
        "stripe_bytes_per_second": "stripe_write_bytes_per_second",
        "stripe_count": "write_stripe_count",
        "knee_power": "write_knee_power",
    },
    "read": {
        "file_system_bytes_per_second": "read_bytes_per_second",
        "node_bytes_per_second": "node_read_bytes_per_second",
        "node_buffered_bytes_per_second": "node_buffered_read_bytes_per_second",
        "writer_bytes_per_second": "writer_read_bytes_per_second",
        "writer_buffered_bytes_per_second": "writer_buffered_read_bytes_per_second",
        "files_per_second": "read_files_per_second",
        "file_seconds": "file_read_seconds",
        "planning_seconds_per_rank": "read_planning_seconds_per_rank",
        "fixed_seconds": "fixed_read_seconds",
        "writer_contention_fraction": "writer_read_contention_fraction",
        "node_contention_fraction": "node_read_contention_fraction",
        "cache_bytes": "read_cache_bytes",
        "beyond_cache_bytes_per_second": "beyond_cache_read_bytes_per_second",
        "stripe_bytes_per_second": "stripe_read_bytes_per_second",
        "stripe_count": "read_stripe_count",
        "knee_power": "read_knee_power",
    },
}
"""Of a StorageProfile, by those of Rates that they fill in each direction."""


def rates_of(figures: Mapping[str, Any], direction: Direction) -> Rates:
    """The rates of a direction among figures by their fields in a StorageProfile; what is not there is None."""
    known = figures.get
    return Rates(**{name: known(field) for name, field in _FIELDS[direction].items()})
