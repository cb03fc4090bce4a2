"""The verbs of `ckpt-bench`."""

from __future__ import annotations

import os

from io_bench.cli.measuring import engines, mlperf, run, scan
from io_bench.cli.observation import observe
from io_bench.cli.results import calibrate, publish, schema
from io_bench.cli.targets import check, clean
from io_bench.cli.validation import validate
from io_bench.cli.verification import verify
from io_bench.ranks.slurm import torchrun_variables
from sizing.cli.console import Version, program_app

app = program_app(help="Write and restore real sharded torch checkpoints, and measure how fast the storage is.")

for verb in (check, run, scan, mlperf, engines, clean, calibrate, publish, schema, validate, verify, observe):
    app.command()(verb)


@app.callback()
def ckpt_bench(version: Version = False) -> None:
    """What holds for every verb: ranks that srun has started meet as those of torchrun."""
    os.environ.update(torchrun_variables(os.environ))
