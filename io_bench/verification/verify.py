"""The answer of `ckpt-bench verify`, and how it is found."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from io_bench.verification.checksums import Checksums
from io_bench.verification.reading import damage_in
from io_bench.verification.regions import Damage, Region
from io_bench.verification.structure import regions_of
from sizing.checkpoint_files.folder import files_below
from sizing.errors import InvalidInput, UnreadableFile


class FoundDamage(BaseModel):
    """What is wrong with one file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str = Field(description="Path of the file in the checkpoint's folder.")
    problem: str = Field(description="What is wrong with it, as the end of a sentence that begins with the file.")


class Verification(BaseModel):
    """Whether a checkpoint is whole and readable, and how much of it a checksum vouches for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(description="File or folder that was read.")
    num_files: int = Field(description="Files that were read.")
    total_bytes: int = Field(description="Bytes of these files.")
    checked_bytes: int = Field(description="Bytes that were held against a checksum.")
    unchecked_bytes: dict[str, int] = Field(
        description="Bytes that were read without a checksum, by file: a change in them cannot be seen."
    )
    damage: tuple[FoundDamage, ...] = Field(description="What was found wrong; empty where nothing was.")
    seconds: float = Field(description="Seconds that reading and checking took.")

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.damage


def files_of(path: Path) -> tuple[Path, tuple[Path, ...]]:
    """The folder and the files of a checkpoint that is a folder or one file.

    Raises UnreadableFile or InvalidInput where there is none.
    """
    if not path.is_dir():
        if not path.is_file():
            raise UnreadableFile(f"{path} cannot be read (no such file or folder): check the name.")
        return path.parent, (path,)
    files = tuple(sorted(files_below(path)))
    if not files:
        raise InvalidInput.of(str(path), "holds no file", value=None, remedy="give the folder of a checkpoint")
    return path, files


def verified(
    path: Path, *, checksums: Checksums | None = None, num_threads: int, progress: Callable[[int], None]
) -> Verification:
    """Read a checkpoint whole and check what can be checked. `progress` hears of the bytes read.

    Raises UnreadableFile or InvalidInput where there is none.
    """
    started = time.monotonic()
    root, files = files_of(path)
    found = list(regions_of(files))
    damage = [one for one in found if isinstance(one, Damage)]
    if checksums is not None:
        found = list(checksums.regions(root, files))
        damage += [one for one in found if isinstance(one, Damage)]
    regions = [one for one in found if isinstance(one, Region) and one.length]
    damage += damage_in(regions, num_threads=num_threads, progress=progress)
    unchecked: Counter[str] = Counter()
    for region in regions:
        if region.expected is None:
            unchecked[str(region.path.relative_to(root))] += region.length
    return Verification(
        path=str(path),
        num_files=len(files),
        total_bytes=sum(file.stat().st_size for file in files),
        checked_bytes=sum(region.length for region in regions if region.expected is not None),
        unchecked_bytes=dict(unchecked),
        damage=tuple(FoundDamage(file=str(one.path.relative_to(root)), problem=one.sentence) for one in damage),
        seconds=time.monotonic() - started,
    )
