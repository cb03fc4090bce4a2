"""Every byte of the regions, read by several threads in the order of the files, and held against its checksum."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from io_bench.verification.regions import ALGORITHM_TITLES, Damage, Region, checksum, combined_crc32

_BLOCK_BYTES = 4 * 1024**2
"""Of one read: large enough for full speed on disks and parallel file systems, small enough for the processor's
cache to hold what its thread checks next. From memory, 8 MiB took 6 % more processor time, 16 MiB 50 %."""
_STRETCH_BYTES = 64 * 1024**2
"""Of what a thread reads in one go: small tensors together, large ones in pieces."""

_Progress = Callable[[int], None]
_Stretch = tuple[Region, ...]


def damage_in(regions: Iterable[Region], *, num_threads: int, progress: _Progress) -> Iterator[Damage]:
    """What is wrong with the regions: unreadable, cut short, or changed. `progress` hears of the bytes read."""
    cut = [pieces(region) for region in sorted(regions, key=lambda region: (region.path, region.offset))]
    with ThreadPoolExecutor(num_threads) as threads:
        read = threads.map(functools.partial(_read, progress=progress), stretches(itertools.chain.from_iterable(cut)))
        found = itertools.chain.from_iterable(read)
        for parts in cut:
            damage = _damage(parts, list(itertools.islice(found, len(parts))))
            if damage is not None:
                yield damage


def pieces(region: Region) -> Sequence[Region]:
    """A region in pieces that several threads can check: only a CRC-32 can be put together from those of pieces."""
    if region.algorithm not in (None, "crc32") or region.length <= _STRETCH_BYTES:
        return (region,)
    offsets = range(region.offset, region.end, _STRETCH_BYTES)
    return [replace(region, offset=offset, length=min(_STRETCH_BYTES, region.end - offset)) for offset in offsets]


def stretches(regions: Iterable[Region]) -> Iterator[_Stretch]:
    """Regions that follow each other in a file, together as long as they are short."""
    stretch: list[Region] = []
    for region in regions:
        if stretch and not _continues(stretch, region):
            yield tuple(stretch)
            stretch = []
        stretch.append(region)
    if stretch:
        yield tuple(stretch)


def digests_of(stretch: _Stretch, progress: _Progress) -> list[str]:
    """The checksums of regions that follow each other, as they are read now.

    Raises OSError, or EOFError where the file ends before them.
    """
    fd = os.open(stretch[0].path, os.O_RDONLY)
    try:
        blocks = _blocks(fd, stretch[0].offset, stretch[-1].end, progress)
        return list(_digests(stretch, blocks))
    finally:
        os.close(fd)


def _continues(stretch: Sequence[Region], region: Region) -> bool:
    follows = (region.path, region.offset) == (stretch[-1].path, stretch[-1].end)
    return follows and region.end - stretch[0].offset <= _STRETCH_BYTES


def _blocks(fd: int, begin: int, end: int, progress: _Progress) -> Iterator[memoryview]:
    """The bytes of a part of a file, block by block in the same memory."""
    buffer, reached = memoryview(bytearray(min(_BLOCK_BYTES, end - begin))), begin
    os.posix_fadvise(fd, begin, end - begin, os.POSIX_FADV_SEQUENTIAL)
    while reached < end:
        size = os.preadv(fd, [buffer[: end - reached]], reached)
        if size == 0:
            raise EOFError(f"it ends at byte {os.fstat(fd).st_size:,}")
        yield buffer[:size]
        reached += size
        progress(size)


def _digests(regions: Iterable[Region], blocks: Iterator[memoryview]) -> Iterator[str]:
    """The checksum of each region from the blocks that they fill together."""
    block = memoryview(b"")
    for region in regions:
        found, left = checksum(region.algorithm), region.length
        while left:
            block = block or next(blocks)
            found.update(block[:left])
            left, block = left - len(block[:left]), block[left:]
        yield found.hexdigest()


def _read(stretch: _Stretch, progress: _Progress) -> list[str | Damage]:
    """For each region of a stretch its checksum, or why it cannot be read."""
    try:
        return [*digests_of(stretch, progress)]
    except (OSError, EOFError) as error:
        if len(stretch) == 1:
            return [_unreadable(stretch[0], error)]
    return [found for region in stretch for found in _read((region,), progress)]


def _unreadable(region: Region, error: OSError | EOFError) -> Damage:
    if isinstance(error, EOFError):
        return Damage(region.path, f"is cut short in {_place(region)}: {error}")
    return Damage(region.path, f"cannot be read in {_place(region)}: {error.strerror or error}")


def _damage(parts: Sequence[Region], found: Sequence[str | Damage]) -> Damage | None:
    """What is wrong with a region, by what was found in its pieces."""
    for one in found:
        if isinstance(one, Damage):
            return one
    region = replace(parts[0], length=parts[-1].end - parts[0].offset)
    if region.expected is None or region.algorithm is None:
        return None
    digests = [digest for digest in found if isinstance(digest, str)]
    lengths = [part.length for part in parts]
    digest = digests[0] if len(digests) == 1 else combined_crc32(digests, lengths)
    if digest == region.expected:
        return None
    name = ALGORITHM_TITLES[region.algorithm]
    return Damage(
        region.path, f"has changed since it was saved: {_place(region)} has {name} {digest}, not {region.expected}"
    )


def _place(region: Region) -> str:
    return f"{region.what} (bytes {region.offset:,} to {region.end:,})"
