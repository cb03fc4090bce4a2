"""Addresses of targets: a path of a directory, a URL of a place in an object store. They are checked before a write."""

from __future__ import annotations

import os
import re

from io_bench.target.directory import DirectoryTarget
from io_bench.target.target import Target
from sizing.errors import InvalidInput

_FILE_SCHEMES = ("file://", "local://")
_SCHEME = re.compile(r"[A-Za-z][\w+.:-]*://")
"""Pattern of the beginning of a URL; file systems of fsspec may be chained with ::."""
_NEXT_TARGET = re.compile(rf",(?=/|{_SCHEME.pattern})")
"""A comma that is not part of an object's key: a path or a URL follows."""


def is_url(text: str) -> bool:
    """Whether a target is an object store and no path.

    >>> is_url("s3://bucket/prefix"), is_url("file:///mnt/x"), is_url("/mnt/x"), is_url("/mnt/a,file:///mnt/b")
    (True, False, False, False)
    """
    return _SCHEME.match(text) is not None and not text.startswith(_FILE_SCHEMES)


def checked_target(text: str, *, is_first: bool) -> Target:
    """Find the target that a path or a URL names. Raises InvalidInput where it cannot be written to.

    Args: `is_first`, for the one rank that may ask an object store: where all list at once, a store suffers.
    """
    if is_url(text):
        if len(spread_paths(text)) > 1:
            raise InvalidInput.of("--target", "must be one URL here", value=text, remedy="give one after another")
        from io_bench.target.object_store.url_target import UrlTarget  # noqa: PLC0415 - fsspec, where it is needed

        return UrlTarget.checked(text, is_first=is_first)
    if len(spread_paths(text)) > 1:
        raise InvalidInput.of("--target", "must be one directory here", value=text, remedy="give one after another")
    return DirectoryTarget.checked(_path_of(text))


def spread_paths(text: str) -> tuple[str, ...]:
    """The paths or the URLs that a target names, separated by commas; one where that very path is there.

    A comma in a URL is part of it unless a path or a URL follows. Raises InvalidInput for paths beside URLs.

    >>> spread_paths("/mnt/a,file:///mnt/b"), spread_paths("s3://bucket/a,b"), spread_paths("s3://a/x,s3://b/x")
    (('/mnt/a', '/mnt/b'), ('s3://bucket/a,b',), ('s3://a/x', 's3://b/x'))
    """
    if not is_url(text) and os.path.lexists(_path_of(text)):
        return (text,)
    parts = tuple(_NEXT_TARGET.split(text))
    num_urls = sum(map(is_url, parts))
    if num_urls == len(parts):
        return parts
    if num_urls:
        rule, remedy = "must be directories or URLs, not both", "measure one kind after the other"
        raise InvalidInput.of("--target", rule, value=text, remedy=remedy)
    return tuple(map(_path_of, text.split(",")))


def _path_of(text: str) -> str:
    for scheme in _FILE_SCHEMES:
        text = text.removeprefix(scheme)
    return text
