"""What is measured: a directory, or a place in an object store, in which runs make places of their own."""

from __future__ import annotations

from typing import Protocol

from io_bench.target.run_files import RunFiles
from io_bench.target.transfer import Transfer
from sizing.storage.measurement import CachePolicy

RUN_PREFIX = "ckpt-bench-"
"""A run's place in the target is named by this and its id."""


class Target(Protocol):
    """Where runs make a place of their own."""

    @property
    def title(self) -> str:
        """A path or a URL."""

    @property
    def remark(self) -> str:
        """What the user should know of it, or nothing."""

    @property
    def cache_policy(self) -> CachePolicy | None:
        """How the page cache is kept out of every engine's figure; None where that is up to the engine."""

    def transfer(
        self, *, block_bytes: int | None, num_parallel: int | None, largest_file_bytes: int
    ) -> Transfer | None:
        """How it moves files, where that is not up to the engine; None leaves a choice to it.

        Raises InvalidInput for what it does not take.
        """

    def check_space(self, needed_bytes: int) -> None:
        """Raise InvalidInput where it has less free than is needed, plus 5 %."""

    def description(self) -> dict[str, str]:
        """What a result says of it: a mount, or an endpoint."""

    def run_ids(self) -> list[str]:
        """The runs that have a place here, by what the places are called. Raises OSError."""

    def run_title(self, run_id: str) -> str:
        """Where a run's place will be."""

    def made(self, run_id: str) -> RunFiles:
        """A new place for a run. Raises InvalidInput where that is not allowed, or it is there already."""

    def seen(self, run_id: str) -> RunFiles:
        """The place that another rank has made. Raises OSError."""
