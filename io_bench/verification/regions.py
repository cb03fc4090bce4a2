"""A part of a file to read, the checksum that it should have, and what is found wrong with it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import xxhash
from isal import isal_zlib

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
    """CRC-32 in the form of hashlib's objects. ISA-L's takes a tenth of the processor time of zlib's."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: memoryview, /) -> None:
        self._value = isal_zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


class _Nothing:
    """Of what nobody keeps a checksum."""

    def update(self, data: memoryview, /) -> None:
        pass

    def hexdigest(self) -> str:
        return ""


def checksum(algorithm: Algorithm | None) -> Checksum:
    """An empty checksum; without an algorithm, of nothing."""
    makers: Mapping[Algorithm | None, Callable[[], Checksum]] = {
        "crc32": _Crc32,
        "sha256": hashlib.sha256,
        "xxh3_128": xxhash.xxh3_128,
        None: _Nothing,
    }
    return makers[algorithm]()


def combined_crc32(checksums: Sequence[str], lengths: Sequence[int]) -> str:
    """The CRC-32 of pieces one after another, from those of the pieces and their bytes.

    >>> combined_crc32(["9be3e0a3", "131da070"], [4, 5])  # of b"1234" and b"56789", together the check value of CRC-32
    'cbf43926'
    """
    values = [int(checksum, 16) for checksum in checksums]
    pairs = zip(values[1:], lengths[1:], strict=True)
    return f"{functools.reduce(lambda whole, pair: isal_zlib.crc32_combine(whole, *pair), pairs, values[0]):08x}"


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of a file. `what` they are, for people; `expected` in hexadecimal, None where nobody keeps a checksum."""

    path: Path
    offset: int
    length: int
    what: str
    algorithm: Algorithm | None = None
    expected: str | None = None

    @property
    def end(self) -> int:
        """The byte behind its last."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Damage:
    """Something wrong with a file, in a sentence without its subject."""

    path: Path
    sentence: str
