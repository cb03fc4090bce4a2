"""`ckpt-bench`: its verbs.

Exit code 0 for a result, 2 for input that cannot be run, 1 for a run that failed, 128 + signal for one that
was interrupted.
"""

from __future__ import annotations

import os
from typing import NoReturn

import typer

from io_bench.cli.measuring import engines, run, scan
from io_bench.cli.results import calibrate, publish, schema
from io_bench.cli.targets import check, clean
from io_bench.cli.validation import validate
from io_bench.ranks.slurm import torchrun_variables

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

for verb in (check, run, scan, engines, clean, calibrate, publish, schema, validate):
    app.command()(verb)


@app.callback()
def ckpt_bench() -> None:
    """Write and restore real sharded torch checkpoints, and measure how fast the storage is."""


def main(arguments: list[str] | None = None) -> NoReturn:
    """The entry point: reads `arguments`, or those of the process. Raises SystemExit with the exit code."""
    os.environ.update(torchrun_variables(os.environ))
    app(arguments, prog_name="ckpt-bench")
    raise SystemExit(0)
