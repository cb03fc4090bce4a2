"""Values on their way between ranks: JSON, compressed where it leaves a node."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any


def text_of(value: Any) -> bytes:
    """A value as one rank gives it.

    >>> text_of({"seconds": [1.5, 2]})
    b'{"seconds":[1.5,2]}'
    """
    return json.dumps(value, separators=(",", ":")).encode()


def bundle_of(texts: Iterable[bytes]) -> bytes:
    """The values of several ranks as one: what they have in common is sent once.

    >>> value_of(bundle_of([text_of(1), text_of("two")]))
    [1, 'two']
    """
    return zlib.compress(b"[" + b",".join(texts) + b"]")


def packed(value: Any) -> bytes:
    """One value, compressed."""
    return zlib.compress(text_of(value))


def value_of(package: bytes) -> Any:
    """What is in a package or a bundle."""
    return json.loads(zlib.decompress(package))


def read(text: bytes) -> Any:
    """What one rank gave."""
    return json.loads(text)
