"""Every byte of the regions, read by several threads and held against its checksum."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from io_bench.verification.regions import ALGORITHM_TITLES, Damage, Region, checksum

_BLOCK_BYTES = 8 * 1024**2
"""Of one read: large enough for full speed on disks and parallel file systems, small enough for the processor's
cache to hold what its thread checks next."""

_Progress = Callable[[int], None]


def damage_in(regions: Iterable[Region], *, num_threads: int, progress: _Progress) -> Iterator[Damage]:
    """What is wrong with the regions: unreadable, cut short, or changed. `progress` hears of the bytes read."""
    largest_first = sorted(regions, key=lambda region: region.length, reverse=True)
    with ThreadPoolExecutor(num_threads) as threads:
        for damage in threads.map(lambda region: _damage(region, progress), largest_first):
            if damage is not None:
                yield damage


def digest_of(region: Region, progress: _Progress = lambda _: None) -> str:
    """The checksum of a region as it is read now. Raises OSError, or EOFError where the file ends before it."""
    found, buffer, done = checksum(region.algorithm), memoryview(bytearray(min(_BLOCK_BYTES, region.length))), 0
    fd = os.open(region.path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, region.offset, region.length, os.POSIX_FADV_SEQUENTIAL)
        while done < region.length:
            size = os.preadv(fd, [buffer[: region.length - done]], region.offset + done)
            if size == 0:
                raise EOFError(f"it ends at byte {region.offset + done:,}")
            found.update(buffer[:size])
            done += size
            progress(size)
    finally:
        os.close(fd)
    return found.hexdigest()


def _damage(region: Region, progress: _Progress) -> Damage | None:
    place = f"{region.what} (bytes {region.offset:,} to {region.offset + region.length:,})"
    try:
        found = digest_of(region, progress)
    except OSError as error:
        return Damage(region.path, f"cannot be read in {place}: {error.strerror or error}")
    except EOFError as error:
        return Damage(region.path, f"is cut short in {place}: {error}")
    if region.expected in (None, found):
        return None
    name = ALGORITHM_TITLES[region.algorithm]
    return Damage(region.path, f"has changed since it was saved: {place} has {name} {found}, not {region.expected}")
