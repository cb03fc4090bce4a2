"""Regions of files to read, the checksums that they should have, and what is found wrong with them.

Every byte is read by several threads in the order of the files, and held against its checksum.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import xxhash
from isal import isal_zlib

Algorithm = Literal["crc32", "sha256", "xxh3_128"]
"""CRC-32 is what zip records hold. XXH3-128 is what our own checksums are: it keeps up with any storage, and is against
accidents, not against forgers. Those made before are SHA-256."""
ALGORITHM_TITLES: Mapping[Algorithm, str] = {"crc32": "CRC-32", "sha256": "SHA-256", "xxh3_128": "XXH3-128"}


class Checksum(Protocol):
    """The part of the interface of hashlib's objects that is used here."""

    def update(self, data: memoryview, /) -> None:
        """Take the next bytes."""

    def hexdigest(self) -> str:
        """The checksum of the bytes taken so far."""


class _Crc32:
    """CRC-32 in the form of hashlib's objects. ISA-L's takes a tenth of the processor time of zlib's."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: memoryview, /) -> None:
        self._value = isal_zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


class _NoChecksum:
    """Takes the bytes of a region that has no checksum to compare with."""

    def update(self, data: memoryview, /) -> None:
        pass

    def hexdigest(self) -> str:
        return ""


def checksum(algorithm: Algorithm | None) -> Checksum:
    """Begin a checksum. Without an algorithm, the bytes are read and nothing is computed."""
    makers: Mapping[Algorithm | None, Callable[[], Checksum]] = {
        "crc32": _Crc32,
        "sha256": hashlib.sha256,
        "xxh3_128": xxhash.xxh3_128,
        None: _NoChecksum,
    }
    return makers[algorithm]()


def combined_crc32(checksums: Sequence[str], lengths: Sequence[int]) -> str:
    """Combine the CRC-32 of pieces that follow each other, by their number of bytes.

    >>> combined_crc32(["9be3e0a3", "131da070"], [4, 5])  # of b"1234" and b"56789", together the check value of CRC-32
    'cbf43926'
    """
    values = [int(checksum, 16) for checksum in checksums]
    pairs = zip(values[1:], lengths[1:], strict=True)
    return f"{functools.reduce(lambda whole, pair: isal_zlib.crc32_combine(whole, *pair), pairs, values[0]):08x}"


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a file. `what` it holds, for people; `expected` in hexadecimal, None where nobody keeps a checksum.

    `is_frame`: headers and padding around content, of which the structure tells most changes.
    """

    path: Path
    offset: int
    length: int
    what: str
    algorithm: Algorithm | None = None
    expected: str | None = None
    is_frame: bool = False

    @property
    def end(self) -> int:
        """Offset of the byte behind the region."""
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Damage:
    """Something wrong with a file, in a sentence without its subject."""

    path: Path
    sentence: str


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A file of which nobody can tell whether it is whole, and why, in a sentence without its subject."""

    path: Path
    sentence: str


@dataclass(frozen=True, slots=True)
class Dispensable:
    """A missing file without which a run goes on, and what it does then, in a sentence without its subject."""

    path: Path
    sentence: str


_BLOCK_BYTES = 4 * 1024**2
"""Bytes of one read: large enough for full speed on disks and parallel file systems, small enough for the processor's
cache to hold what its thread checks next. From memory, 8 MiB took 6 % more processor time, 16 MiB 50 %."""
_STRETCH_BYTES = 64 * 1024**2
"""Bytes that a thread reads in one go: small tensors together, large ones in pieces."""

Progress = Callable[[int], None]
"""Is told how many bytes were read."""
Stretch = tuple[Region, ...]
"""Regions that follow each other in one file."""


def damage_in(regions: Iterable[Region], *, num_threads: int, progress: Progress) -> Iterator[Damage]:
    """List the regions that are unreadable, cut short or changed. `progress` hears of the bytes read."""
    cut = [pieces(region) for region in sorted(regions, key=lambda region: (region.path, region.offset))]
    with ThreadPoolExecutor(num_threads) as threads:
        read = threads.map(functools.partial(_read, progress=progress), stretches(itertools.chain.from_iterable(cut)))
        results = itertools.chain.from_iterable(read)
        for parts in cut:
            damage = _find_damage(parts, list(itertools.islice(results, len(parts))))
            if damage is not None:
                yield damage


def pieces(region: Region) -> Sequence[Region]:
    """Cut a region into pieces that several threads can check: only the CRC-32 of pieces can be combined."""
    if region.algorithm not in (None, "crc32") or region.length <= _STRETCH_BYTES:
        return (region,)
    offsets = range(region.offset, region.end, _STRETCH_BYTES)
    return [replace(region, offset=offset, length=min(_STRETCH_BYTES, region.end - offset)) for offset in offsets]


def stretches(regions: Iterable[Region]) -> Iterator[Stretch]:
    """Group short regions that follow each other in a file."""
    stretch: list[Region] = []
    for region in regions:
        if stretch:
            follows = (region.path, region.offset) == (stretch[-1].path, stretch[-1].end)
            if not follows or region.end - stretch[0].offset > _STRETCH_BYTES:
                yield tuple(stretch)
                stretch = []
        stretch.append(region)
    if stretch:
        yield tuple(stretch)


def digests_of(stretch: Stretch, progress: Progress) -> list[str]:
    """Compute the checksums of regions that follow each other, as they are read now.

    Raises OSError, or EOFError where the file ends before them.
    """
    fd = os.open(stretch[0].path, os.O_RDONLY)
    try:
        blocks = _read_blocks(fd, stretch[0].offset, stretch[-1].end, progress)
        block = memoryview(b"")
        digests = []
        for region in stretch:
            digest, remaining = checksum(region.algorithm), region.length
            while remaining:
                block = block or next(blocks)
                digest.update(block[:remaining])
                remaining, block = remaining - len(block[:remaining]), block[remaining:]
            digests.append(digest.hexdigest())
        return digests
    finally:
        os.close(fd)


def _read_blocks(fd: int, begin: int, end: int, progress: Progress) -> Iterator[memoryview]:
    """Read a part of a file, block by block into the same memory."""
    buffer, reached = memoryview(bytearray(min(_BLOCK_BYTES, end - begin))), begin
    os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_SEQUENTIAL)
    while reached < end:
        size = os.preadv(fd, [buffer[: end - reached]], reached)
        if size == 0:
            raise EOFError(f"it ends at byte {os.fstat(fd).st_size:,}")
        yield buffer[:size]
        reached += size
        progress(size)


def _read(stretch: Stretch, progress: Progress) -> list[str | Damage]:
    """Compute the checksum of each region of a stretch, or say why it cannot be read."""
    try:
        return [*digests_of(stretch, progress)]
    except (OSError, EOFError) as error:
        if len(stretch) == 1:
            region = stretch[0]
            if isinstance(error, EOFError):
                return [Damage(region.path, f"is cut short in {_place(region)}: {error}")]
            return [Damage(region.path, f"cannot be read in {_place(region)}: {error.strerror or error}")]
    return [result for region in stretch for result in _read((region,), progress)]


def _find_damage(parts: Sequence[Region], results: Sequence[str | Damage]) -> Damage | None:
    """Compare what was read of a region's pieces with its length and its checksum."""
    digests = []
    for result in results:
        if isinstance(result, Damage):
            return result
        digests.append(result)
    region = replace(parts[0], length=parts[-1].end - parts[0].offset)
    if region.expected is None or region.algorithm is None:
        return None
    digest = digests[0] if len(digests) == 1 else combined_crc32(digests, [part.length for part in parts])
    if digest == region.expected:
        return None
    name = ALGORITHM_TITLES[region.algorithm]
    return Damage(
        region.path, f"has changed since it was saved: {_place(region)} has {name} {digest}, not {region.expected}"
    )


def _place(region: Region) -> str:
    return f"{region.what} (bytes {region.offset:,} to {region.end:,})"
