"""What is measured: a directory, or a place in an object store. Checked before anything is written there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from io_bench.target.directory_target import DirectoryTarget
from sizing.storage.measurement import CachePolicy

if TYPE_CHECKING:
    from io_bench.target.object_store.store import Transfer
    from io_bench.target.run_files import RunFiles

_FILE_SCHEMES = ("file://", "local://")


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


def is_url(text: str) -> bool:
    """Whether a target is an object store and no path.

    >>> is_url("s3://bucket/prefix"), is_url("file:///mnt/x"), is_url("/mnt/x")
    (True, False, False)
    """
    return "://" in text and not text.startswith(_FILE_SCHEMES)


def checked_target(text: str, *, is_first: bool) -> Target:
    """The target that a path or a URL names. Raises InvalidInput where it is nowhere to write to.

    Args: `is_first`, for the one rank that may ask an object store: where all list at once, a store suffers.
    """
    if is_url(text):
        from io_bench.target.object_store.target import UrlTarget  # noqa: PLC0415 - fsspec, where it is needed

        return UrlTarget.checked(text, is_first=is_first)
    for scheme in _FILE_SCHEMES:
        text = text.removeprefix(scheme)
    return DirectoryTarget.checked(text)
