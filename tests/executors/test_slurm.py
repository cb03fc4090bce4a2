"""Workers of Dask in jobs of Slurm."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.testbed.launch import REPOSITORY, finish
from tests.testbed.network import Link, network
from tests.testbed.slurm import slurm

if TYPE_CHECKING:
    from tests.conftest import Testbed

SWEEP = "from sizing.questions.sweep import axes; axes._ROWS_PER_CHUNK = 100; from sizing.cli.main import main; main()"
FLAGS = "--model llama-3-8b --gpus 16 --node dgx-h100 --interval 60s..3600s:400 --write-bandwidth 9GB/s --json"


@pytest.mark.long(minutes=3)
def test_a_sweep_by_jobs_of_slurm_is_that_of_one_process(tmp_path: Path, testbed: Testbed) -> None:
    nodes = testbed(network(tmp_path, {"head": Link(), "n1": Link(), "n2": Link()}))
    head = nodes["head"]
    cluster = testbed(slurm(tmp_path, controller=head, nodes=[nodes["n1"], nodes["n2"]]))
    sweep = [sys.executable, "-c", SWEEP, "sweep", *FLAGS.split()]
    script = [sys.executable, REPOSITORY / "deploy" / "slurm" / "ckpt-dask.py"]
    size = ["--jobs", "2", "--cores", "1", "--host", head.address]
    (by_jobs, alone) = (
        finish([cluster.start(*command, directory=tmp_path)])[0] for command in ([*script, *size, *sweep], sweep)
    )
    assert by_jobs.returncode == 0, by_jobs.stderr
    assert by_jobs.stdout == alone.stdout
    assert alone.stdout.startswith("{")
    assert cluster.done("squeue", "--noheader") == "", "the jobs have ended"
    assert list(tmp_path.glob("ckpt-dask-*")) == []
