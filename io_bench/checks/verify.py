"""`ckpt-bench verify`: whether files of a checkpoint are what their checksums and their structure say.

Checksums that were made at the save and are kept beside it serve files that have none of their own.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from io_bench.checks.file_regions import Algorithm, Damage, Dispensable, Region, Unjudged, damage_in, digests_of
from io_bench.checks.saved_steps import SavedStep, mixed_steps
from io_bench.checks.structure import absences_in, regions_of, split_readable
from sizing.checkpoint_files.dcp import DATA_SUFFIX, METADATA_NAME, seconds_written_apart, written_apart_text
from sizing.checkpoint_files.folder import files_below, is_state
from sizing.checkpoint_files.missing_files import uncounted_ranks
from sizing.checkpoint_files.untrusted import printable
from sizing.errors import InvalidInput, UnreadableFile, explain
from sizing.strict_model import StrictModel
from sizing.units import bytes_text, counted_text, percent_text, rate_text, seconds_text


class DamagedFile(StrictModel):
    """A file that is damaged, and what is wrong with it."""

    file: str = Field(description="Path of the file in the checkpoint's folder.")
    problem: str = Field(description="What is wrong with it, as the end of a sentence that begins with the file.")


class UnjudgedFile(StrictModel):
    """A file that cannot be judged whole or damaged, and the reason."""

    file: str = Field(description="Path of the file in the checkpoint's folder; a dot is the folder.")
    reason: str = Field(description="Why it cannot be judged, as the end of a sentence that begins with the file.")


class DispensableFile(StrictModel):
    """A file that is missing and without which a run goes on, and what it does then."""

    file: str = Field(description="Path of the file in the checkpoint's folder.")
    effect: str = Field(description="What follows, as the end of a sentence that begins with the file.")


Verdict = Literal["whole", "damaged", "not judged"]


class Verification(StrictModel):
    """Whether a checkpoint is whole and readable, and how much of it a checksum vouches for."""

    path: str = Field(description="File or folder that was read.")
    verdict: Verdict = Field(
        description="damaged where anything is wrong; else not judged where a file of it is not; else whole: all files "
        "are there, readable, and as they were saved as far as can be seen."
    )
    num_files: int = Field(description="Files that were read.")
    total_bytes: int = Field(description="Bytes of these files.")
    checked_bytes: int = Field(description="Bytes that were held against a checksum.")
    unchecked_bytes: dict[str, int] = Field(
        description="Bytes that were read without a checksum, by file: a change in them cannot be seen."
    )
    unseen_bytes: dict[str, int] = Field(
        description="Those of them that are content, not headers and padding around it, by file."
    )
    uncounted_ranks: dict[str, int] = Field(
        description="Files of which each rank writes one, by their names, where no file says how many ranks there "
        "were: that the last is missing cannot be seen."
    )
    seconds_apart: dict[str, float] = Field(
        description="Data files of torch DCP that were written apart from the .metadata beside them, with a pause of "
        "more than an hour between: seconds after it by file, negative before it."
    )
    not_judged: tuple[UnjudgedFile, ...] = Field(
        description="Files of which nobody can tell whether they are whole; empty where all were judged."
    )
    warnings: tuple[DispensableFile, ...] = Field(
        description="Missing files without which a run goes on, such as random states of Trainer; no damage."
    )
    damage: tuple[DamagedFile, ...] = Field(description="What was found wrong; empty where nothing was.")
    seconds: float = Field(description="Seconds that reading and checking took.")


def files_of(path: Path) -> tuple[Path, tuple[Path, ...]]:
    """Find the folder and the files of a checkpoint that is a folder or one file.

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


def verify_checkpoint(
    path: Path, *, checksums: Checksums | None = None, num_threads: int, progress: Callable[[int], None]
) -> Verification:
    """Read a checkpoint whole and check what can be checked. `progress` hears of the bytes read.

    Raises UnreadableFile or InvalidInput where there is none.
    """
    started = time.monotonic()
    root, files = files_of(path)
    openable, unopenable = split_readable(files)
    judgements = [*unopenable, *regions_of(openable), *(absences_in(root, files) if path.is_dir() else ())]
    judgements += mixed_steps([judgement for judgement in judgements if isinstance(judgement, SavedStep)])
    damage = [judgement for judgement in judgements if isinstance(judgement, Damage)]
    unjudged = [judgement for judgement in judgements if isinstance(judgement, Unjudged)]
    dispensable = [judgement for judgement in judgements if isinstance(judgement, Dispensable)]
    if not any(is_state(file) for file in openable) and not unjudged:
        unjudged.append(Unjudged(path, "holds no file of a checkpoint that is known"))
    if checksums is not None:
        unjudged = [each for each in unjudged if each.path in files and _name(each.path, root) not in checksums.files]
        judgements = list(checksums.regions(root, openable))
        damage += [judgement for judgement in judgements if isinstance(judgement, Damage)]
    regions = [judgement for judgement in judgements if isinstance(judgement, Region) and judgement.length]
    damage += damage_in(regions, num_threads=num_threads, progress=progress)
    damaged_paths = {each.path for each in damage}
    not_judged = tuple(
        UnjudgedFile(file=_name(each.path, root), reason=each.sentence)
        for each in unjudged
        if each.path not in damaged_paths
    )
    unchecked, unseen = Counter[str](), Counter[str]()
    for region in regions:
        if region.expected is None:
            unchecked[_name(region.path, root)] += region.length
            unseen[_name(region.path, root)] += 0 if region.is_frame else region.length
    return Verification(
        path=str(path),
        verdict="damaged" if damage else "not judged" if not_judged else "whole",
        num_files=len(openable),
        total_bytes=sum(file.stat().st_size for file in openable),
        checked_bytes=sum(region.length for region in regions if region.expected is not None),
        unchecked_bytes=dict(unchecked),
        unseen_bytes={name: num_bytes for name, num_bytes in unseen.items() if num_bytes},
        seconds_apart={
            _name(metadata.parent / name, root): seconds
            for metadata in openable
            if metadata.name == METADATA_NAME
            for name, seconds in seconds_written_apart(
                {file.name: file.stat().st_mtime for file in (metadata, *metadata.parent.glob(f"*{DATA_SUFFIX}"))}
            ).items()
        },
        uncounted_ranks=uncounted_ranks([_name(file, root) for file in files]),
        not_judged=not_judged,
        warnings=tuple(DispensableFile(file=_name(each.path, root), effect=each.sentence) for each in dispensable),
        damage=tuple(DamagedFile(file=_name(each.path, root), problem=each.sentence) for each in damage),
        seconds=time.monotonic() - started,
    )


def _name(path: Path, root: Path) -> str:
    return printable(str(path.relative_to(root)))


_FOLDER = {".": "the folder"}
"""How lines for people name the folder itself, whose path in itself is a dot."""
MAX_SHOWN = 20
"""Files: a folder of the wrong step has damage in each; the first tell as much as all. `--json` has all."""


def verification_lines(verification: Verification) -> Iterator[str]:
    """Report a verification in lines: the verdict, damage, what is not judged, what was read and without a checksum."""
    yield f"{verification.path}: {_verdict_text(verification)}"
    damage = [f"{file} {_problem_text(problems)}" for file, problems in _problems(verification).items()]
    doubts = [f"{_FOLDER.get(file.file, file.file)} {file.reason}" for file in verification.not_judged]
    warnings = [f"{warning.file} {warning.effect}" for warning in verification.warnings]
    for kind, lines in (("damage", damage), ("not judged", doubts), ("warning", warnings)):
        yield from (f"{kind}: {line}" for line in lines[:MAX_SHOWN])
        if len(lines) > MAX_SHOWN:
            yield f"and {len(lines) - MAX_SHOWN} more; --json lists all."
    if verification.seconds_apart:
        yield f"{written_apart_text(verification.seconds_apart)}."
    for name, count in verification.uncounted_ranks.items():
        ranks = counted_text(count, "rank")
        yield f"There is {name} of {ranks}; no file says how many ranks saved, so more may be missing."
    yield (
        f"Read {counted_text(verification.num_files, 'file')}, {bytes_text(verification.total_bytes)}, "
        f"in {seconds_text(verification.seconds)} ({rate_text(verification.total_bytes / verification.seconds)})."
    )
    unchecked, unseen = sum(verification.unchecked_bytes.values()), sum(verification.unseen_bytes.values())
    if not unchecked:
        yield "A checksum vouches for every byte."
        return
    bytes_without = {"content": unseen, "headers and padding": unchecked - unseen}
    without = " and ".join(
        f"{bytes_text(num_bytes)} of {what}" for what, num_bytes in bytes_without.items() if num_bytes
    )
    yield (
        f"Checksums vouch for {bytes_text(verification.checked_bytes)}; {without} have none. "
        "After a save, --write-checksums FILE keeps checksums for later."
    )


def _problems(verification: Verification) -> dict[str, list[str]]:
    """Group what is wrong by file, as a file that was lost or written over has many tensors."""
    problems: dict[str, list[str]] = defaultdict(list)
    for damage in verification.damage:
        problems[damage.file].append(damage.problem)
    return problems


def _problem_text(problems: list[str]) -> str:
    """Say the first problem of a file, and how many more there are."""
    more = f"; and {counted_text(len(problems) - 1, 'more problem')} in it" if len(problems) > 1 else ""
    return f"{problems[0]}{more}"


def _verdict_text(verification: Verification) -> str:
    if verification.damage:
        return f"DAMAGED, {counted_text(len(_problems(verification)), 'file')}."
    if verification.not_judged:
        return f"NOT JUDGED, for {counted_text(len(verification.not_judged), 'reason')}; nothing is found wrong."
    unseen = verification.unseen_bytes
    if not unseen:
        return "whole and readable."
    largest, unseen_bytes = max(unseen, key=unseen.__getitem__), sum(unseen.values())
    return (
        f"a change in {percent_text(unseen_bytes / verification.total_bytes)} of it cannot be seen, as no checksum "
        f"vouches for {bytes_text(unseen_bytes)} of content (most in {largest}); else whole and readable."
    )


BLOCK_BYTES = 64 * 1024**2
"""Bytes behind one checksum: it tells where a file has changed, and 10 TB make a document of 12 MB."""


class FileChecksums(StrictModel):
    """A file: its size, and the checksum of each of its blocks in their order."""

    num_bytes: int = Field(ge=0, description="Bytes of the file.")
    blocks: tuple[str, ...] = Field(description="Checksum of each block of the file, in hexadecimal.")


class Checksums(StrictModel):
    """Checksums of the files of a folder, by their path in it."""

    algorithm: Algorithm = Field("xxh3_128", description="How the checksums are computed.")
    block_bytes: int = Field(BLOCK_BYTES, ge=1, description="Bytes of each block but the last of a file.")
    files: dict[str, FileChecksums] = Field(description="Checksums of each file by its path in the folder.")

    def regions(self, root: Path, files: Sequence[Path]) -> Iterator[Region | Damage]:
        """List the blocks of files with their checksums, and the damage where a file is missing or of another size."""
        paths = {str(path.relative_to(root)): path for path in files}
        for name in self.files.keys() - paths.keys():
            yield Damage(root / name, "is missing")
        for name, path in paths.items():
            checksums, size = self.files.get(name), path.stat().st_size
            if checksums is None:
                yield Region(path, 0, size, "content that the checksums do not list")
            elif size != checksums.num_bytes:
                yield Damage(path, f"has {size:,} bytes, and had {checksums.num_bytes:,} when it was saved")
            else:
                yield from _blocks(path, size, self.block_bytes, self.algorithm, checksums.blocks)


def checksums_of(root: Path, files: Sequence[Path], *, num_threads: int, progress: Callable[[int], None]) -> Checksums:
    """Compute the checksums of files as they are now. Raises OSError."""
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
    """Read checksums from a file. Raises UnreadableFile or InvalidInput."""
    try:
        return Checksums.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read ({error.strerror}): check the name and permissions.") from None
    except ValidationError as error:
        raise explain(error, Checksums) from None


def _blocks(path: Path, size: int, block_bytes: int, algorithm: Algorithm, expected: Sequence[str]) -> Iterator[Region]:
    """Cut a file into blocks, each with its expected checksum where there is one."""
    for number, offset in enumerate(range(0, size, block_bytes)):
        digest = expected[number] if number < len(expected) else None
        yield Region(path, offset, min(block_bytes, size - offset), f"block {number}", algorithm, digest)
