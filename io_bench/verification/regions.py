"""A part of a file to read, the checksum that it should have, and what is found wrong with it."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import xxhash

Algorithm = Literal["crc32", "sha256", "xxh3_128"]
"""CRC-32 is what zip records hold. XXH3-128 is what our own checksums are: it keeps up with any storage, and is against
accidents, not against forgers. Those made before are SHA-256."""
ALGORITHM_TITLES: Mapping[Algorithm, str] = {"crc32": "CRC-32", "sha256": "SHA-256", "xxh3_128": "XXH3-128"}


class Checksum(Protocol):
    """What hashlib's objects can."""

    def update(self, data: memoryview, /) -> None:
        """Take the next bytes."""

    def hexdigest(self) -> str:
        """The checksum of what was taken."""


class _Crc32:
    """zlib's CRC-32 in the form of hashlib's objects."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: memoryview, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


def checksum(algorithm: Algorithm) -> Checksum:
    """An empty checksum."""
    makers: Mapping[Algorithm, Callable[[], Checksum]] = {
        "crc32": _Crc32,
        "sha256": hashlib.sha256,
        "xxh3_128": xxhash.xxh3_128,
    }
    return makers[algorithm]()


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of a file. `what` they are, for people; `expected` in hexadecimal, None where nobody keeps a checksum."""

    path: Path
    offset: int
    length: int
    what: str
    algorithm: Algorithm = "crc32"
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class Damage:
    """Something wrong with a file, in a sentence without its subject."""

    path: Path
    sentence: str
