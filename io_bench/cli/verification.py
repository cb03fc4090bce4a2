"""The verb that reads a checkpoint and says whether it is whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from io_bench.cli.exits import ended
from io_bench.errors import EXIT_FAILED
from io_bench.terminal import Terminal
from sizing.errors import EXIT_BAD_INPUT, InvalidInput, SizingError

MAX_THREADS = 256
"""More only wait for each other: a node has one path to its storage, and a disk takes some tens of requests."""


def verify(
    checkpoint: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of one checkpoint, or one of its files.")],
    checksums: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Checksums that --write-checksums made: compare every byte with them."),
    ] = None,
    write_checksums: Annotated[
        str | None, typer.Option(metavar="FILE", help="After a save: write the checksums of all files, if it is whole.")
    ] = None,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads that read.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Read a whole checkpoint: are all files there, of their size, unchanged where they have checksums? No pickle runs.

    Exit code 0: nothing is wrong, 1: something is, 2: it cannot be read.
    """
    try:
        is_sound = _verified(
            checkpoint, checksums=checksums, write_to=write_checksums, num_threads=threads, as_json=as_json
        )
    except SizingError as error:
        raise ended(str(error), EXIT_BAD_INPUT, is_speaker=True) from None
    if not is_sound:
        raise typer.Exit(EXIT_FAILED)


def _verified(
    checkpoint: Path, *, checksums: Path | None, write_to: str | None, num_threads: int, as_json: bool
) -> bool:
    from io_bench.results.result_file import ResultFile  # noqa: PLC0415 - the rest needs none of this
    from io_bench.verification.checksums import checksums_of, read_checksums  # noqa: PLC0415 - as above
    from io_bench.verification.verification_table import verification_lines  # noqa: PLC0415 - as above
    from io_bench.verification.verify import files_of, verified  # noqa: PLC0415 - as above

    if not 1 <= num_threads <= MAX_THREADS:
        rule, remedy = f"must be from 1 to {MAX_THREADS}", "give about as many as there are disks"
        raise InvalidInput.of("--threads", rule, value=num_threads, remedy=remedy)
    output = ResultFile(write_to, flag="--write-checksums") if write_to is not None else None
    known = read_checksums(checksums) if checksums is not None else None
    terminal = Terminal(is_speaker=True)
    total = sum(file.stat().st_size for file in files_of(checkpoint)[1])
    with terminal.bytes_progress("Reading", total) as progress:
        found = verified(checkpoint, checksums=known, num_threads=num_threads, progress=progress)
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=2) + "\n")
    else:
        for line in verification_lines(found):
            terminal.show(line)
    if output is not None and found.is_sound:
        with terminal.bytes_progress("Checksums", total) as progress:
            made = checksums_of(*files_of(checkpoint), num_threads=num_threads, progress=progress)
        output.write(made.model_dump_json(indent=1))
        terminal.say(f"Checksums written to {output.path}.")
    return found.is_sound
