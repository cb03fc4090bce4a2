"""What an address names: a path a directory, a URL a place in an object store. Checked before anything is written."""

from __future__ import annotations

from io_bench.target.directory.directory_target import DirectoryTarget
from io_bench.target.target import Target

_FILE_SCHEMES = ("file://", "local://")


def is_url(text: str) -> bool:
    """Whether a target is an object store and no path.

    >>> is_url("s3://bucket/prefix"), is_url("file:///mnt/x"), is_url("/mnt/x")
    (True, False, False)
    """
    return "://" in text and not text.startswith(_FILE_SCHEMES)


def checked_target(text: str, *, is_first: bool) -> Target:
    """The target that a path or a URL names. Raises InvalidInput where it cannot be written to.

    Args: `is_first`, for the one rank that may ask an object store: where all list at once, a store suffers.
    """
    if is_url(text):
        from io_bench.target.object_store.url_target import UrlTarget  # noqa: PLC0415 - fsspec, where it is needed

        return UrlTarget.checked(text, is_first=is_first)
    for scheme in _FILE_SCHEMES:
        text = text.removeprefix(scheme)
    return DirectoryTarget.checked(text)
