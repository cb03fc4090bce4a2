"""Checksums of a checkpoint's files, made at the save and kept beside it, for when the files have none of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from io_bench.verification.reading import digests_of
from io_bench.verification.regions import Algorithm, Damage, Region
from sizing.errors import UnreadableFile, explain

BLOCK_BYTES = 64 * 1024**2
"""Of one checksum: it tells where a file has changed, and 10 TB make a document of 12 MB."""


class FileChecksums(BaseModel):
    """A file: its size, and the checksum of each of its blocks in their order."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_bytes: int = Field(ge=0, description="Bytes of the file.")
    blocks: tuple[str, ...] = Field(description="Checksum of each block of the file, in hexadecimal.")


class Checksums(BaseModel):
    """The files of a folder by their path in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: Algorithm = Field("xxh3_128", description="How the checksums are computed.")
    block_bytes: int = Field(BLOCK_BYTES, ge=1, description="Bytes of each block but the last of a file.")
    files: dict[str, FileChecksums] = Field(description="Checksums of each file by its path in the folder.")

    def regions(self, root: Path, files: Sequence[Path]) -> Iterator[Region | Damage]:
        """The blocks of the files with what they should be; what is missing, of another size, or not listed."""
        there = {str(path.relative_to(root)): path for path in files}
        for name in self.files.keys() - there.keys():
            yield Damage(root / name, "is missing")
        for name, path in there.items():
            listed, size = self.files.get(name), path.stat().st_size
            if listed is None:
                yield Region(path, 0, size, "content that the checksums do not list")
            elif size != listed.num_bytes:
                yield Damage(path, f"has {size:,} bytes, and had {listed.num_bytes:,} when it was saved")
            else:
                yield from _blocks(path, size, self.block_bytes, self.algorithm, listed.blocks)


def checksums_of(root: Path, files: Sequence[Path], *, num_threads: int, progress: Callable[[int], None]) -> Checksums:
    """The checksums of files as they are now. Raises OSError."""
    sizes = {path: path.stat().st_size for path in files}
    with ThreadPoolExecutor(num_threads) as threads:
        blocks = {
            path: [
                threads.submit(digests_of, (region,), progress)
                for region in _blocks(path, size, BLOCK_BYTES, "xxh3_128", ())
            ]
            for path, size in sizes.items()
        }
    return Checksums(
        files={
            str(path.relative_to(root)): FileChecksums(
                num_bytes=size, blocks=tuple(block.result()[0] for block in blocks[path])
            )
            for path, size in sizes.items()
        }
    )


def read_checksums(path: Path) -> Checksums:
    """The checksums in a file. Raises UnreadableFile or InvalidInput."""
    try:
        return Checksums.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror}): check the name and permissions.") from None
    except ValidationError as error:
        raise explain(error, Checksums) from None


def _blocks(path: Path, size: int, block_bytes: int, algorithm: Algorithm, expected: Sequence[str]) -> Iterator[Region]:
    for number, offset in enumerate(range(0, size, block_bytes)):
        known = expected[number] if number < len(expected) else None
        yield Region(path, offset, min(block_bytes, size - offset), f"block {number}", algorithm, known)
