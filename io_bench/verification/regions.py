"""A part of a file to read, the checksum that it should have, and what is found wrong with it."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Algorithm = Literal["crc32", "sha256"]
"""CRC-32 is what zip records hold. SHA-256 is what our own checksums are: processors have instructions for it."""


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
    return _Crc32() if algorithm == "crc32" else hashlib.sha256()


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
