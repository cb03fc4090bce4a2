"""The answer of `ckpt-bench verify` for people."""

from __future__ import annotations

from collections.abc import Iterator

from io_bench.verification.verify import Verification
from sizing.units import bytes_text, counted_text, percent_text, rate_text, seconds_text

MAX_DAMAGE_SHOWN = 20
"""A folder of the wrong step has damage in every file; the first tell as much as all. `--json` has all."""


def verification_lines(found: Verification) -> Iterator[str]:
    """The verdict first, then what is wrong, then what nobody can tell."""
    yield f"{found.path}: {_verdict(found)}"
    for damage in found.damage[:MAX_DAMAGE_SHOWN]:
        yield f"damage: {damage.file} {damage.problem}"
    if len(found.damage) > MAX_DAMAGE_SHOWN:
        yield f"and {len(found.damage) - MAX_DAMAGE_SHOWN} more; --json lists all."
    yield (
        f"Read {counted_text(found.num_files, 'file')}, {bytes_text(found.total_bytes)}, "
        f"in {seconds_text(found.seconds)} ({rate_text(found.total_bytes / found.seconds)})."
    )
    yield _coverage(found)


def _verdict(found: Verification) -> str:
    if not found.is_sound:
        return f"DAMAGED, {counted_text(len(found.damage), 'problem')} found."
    return "whole and readable."


def _coverage(found: Verification) -> str:
    unchecked = sum(found.unchecked_bytes.values())
    if not unchecked:
        return "A checksum vouches for every byte."
    return (
        f"No checksum vouches for {bytes_text(unchecked)} ({percent_text(unchecked / found.total_bytes)}): "
        "a change there cannot be seen. After a save, --write-checksums FILE keeps checksums for later."
    )
