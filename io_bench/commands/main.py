"""`ckpt-bench`: where it starts. Its verbs are imported later, so that what is missing for them can be named.

Exit code 0 for a result, 2 for input that cannot be run, 1 for a run that failed, 128 + signal for one that
was interrupted.
"""

from __future__ import annotations

from typing import NoReturn

import typer

from sizing.terminal.program import Program, run

_PROGRAM = Program(
    "ckpt-bench",
    extra="bench",
    flags_elsewhere={
        "--directory": "--target",
        "--dir": "--target",
        "--path": "--target",
        "--ioengine": "--engine",
        "--size": "--bytes-per-rank",
        "--filesize": "--bytes-per-rank",
        "--bs": "--block-size",
        "--blocksize": "--block-size",
        "--block": "--block-size",
        "--iodepth": "--threads",
        "--numjobs": "--ranks",
        "--np": "--ranks",
        "--nproc-per-node": "--ranks",
        "--iterations": "--repetitions",
        "--loops": "--repetitions",
        "--runtime": "--max-seconds",
        "--limit-bandwidth": "--max-bandwidth",
        "--rate": "--max-bandwidth",
        "--out": "--output",
        "--csvfile": "--csv",
        "--jsonfile": "--output",
    },
)
"""The program, with the names that fio, elbencho, IOR and torchrun have for its flags."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """The entry point: reads `arguments`, or those of the process. Raises SystemExit with the exit code."""
    run(_PROGRAM, _verbs, arguments)


def _verbs() -> typer.Typer:
    from io_bench.commands.verbs import app  # noqa: PLC0415 - see above

    return app
