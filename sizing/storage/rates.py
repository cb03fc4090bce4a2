"""What limits saves, or restores: the rates and times of one direction, each under one name that type checks.

Documents name a direction in each field (`node_write_bytes_per_second`). Here the direction is chosen once, and
everything after it asks for `node_bytes_per_second`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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
]
"""The fields of a StorageProfile that hold a rate or a time."""


@dataclass(frozen=True, slots=True)
class Rates:
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

    @property
    def stream_bytes_per_second(self) -> Numbers | None:
        """Of one writer or reader: through the page cache where that rate is known."""
        buffered = self.writer_buffered_bytes_per_second
        return self.writer_bytes_per_second if buffered is None else buffered


def rates_of(figures: Mapping[str, Numbers], direction: Direction) -> Rates:
    """The rates of a direction among figures by their fields in a StorageProfile."""

    def of(field: RateField) -> Numbers | None:
        return figures.get(field)

    if direction == "write":
        return Rates(
            file_system_bytes_per_second=of("write_bytes_per_second"),
            node_bytes_per_second=of("node_write_bytes_per_second"),
            node_buffered_bytes_per_second=of("node_buffered_write_bytes_per_second"),
            writer_bytes_per_second=of("writer_write_bytes_per_second"),
            writer_buffered_bytes_per_second=of("writer_buffered_write_bytes_per_second"),
            device_to_host_bytes_per_second=of("device_to_host_bytes_per_second"),
            files_per_second=of("files_per_second"),
            file_seconds=of("file_write_seconds"),
            planning_seconds_per_rank=of("planning_seconds_per_rank"),
            commit_seconds=of("commit_seconds"),
            fixed_seconds=of("fixed_write_seconds"),
        )
    return Rates(
        file_system_bytes_per_second=of("read_bytes_per_second"),
        node_bytes_per_second=of("node_read_bytes_per_second"),
        node_buffered_bytes_per_second=of("node_buffered_read_bytes_per_second"),
        writer_bytes_per_second=of("writer_read_bytes_per_second"),
        writer_buffered_bytes_per_second=of("writer_buffered_read_bytes_per_second"),
        files_per_second=of("read_files_per_second"),
        file_seconds=of("file_read_seconds"),
        planning_seconds_per_rank=of("read_planning_seconds_per_rank"),
        fixed_seconds=of("fixed_read_seconds"),
    )
