"""The verb that saves real models and compares their files with what sizing predicts."""

from __future__ import annotations

import sys

import typer

from io_bench.cli.exits import ended
from io_bench.errors import EXIT_FAILED, RunFailed
from io_bench.terminal import WIDTH_WITHOUT_TERMINAL


def validate() -> None:
    """Train tiny real models for one step, save them, and compare the files with what sizing predicts."""
    from rich.console import Console  # noqa: PLC0415 - the rest needs none of this, and torch takes a second
    from rich.progress import track  # noqa: PLC0415 - as above

    from io_bench.validation.cases import available_cases  # noqa: PLC0415 - as above
    from io_bench.validation.comparison import compared, comparison_table  # noqa: PLC0415 - as above

    try:
        files = [
            file for case in track(available_cases(), "Saving", console=Console(stderr=True)) for file in compared(case)
        ]
    except RunFailed as error:
        raise ended(str(error), EXIT_FAILED, is_speaker=True) from None
    Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL).print(comparison_table(files))
    if not all(file.agrees for file in files):
        raise typer.Exit(EXIT_FAILED)
