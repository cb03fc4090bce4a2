#!/usr/bin/env python3
"""Runs a command beside workers of Dask in jobs of Slurm, and ends them with it.

A sweep on eight nodes is

    ckpt-dask.py --jobs 8 --cores 32 --time 04:00:00 ckpt-size sweep scenario.yaml --front

The scheduler runs here, on a login node or in a job of its own; the command gets `--dask` with its address, and
certificates made for this run, which lie in a folder here that jobs can read and nobody else. Where jobs reach this
host by another address than its first, say so with --host. Needs the extra `cluster`, here and in jobs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import dask.config
from dask_jobqueue import SLURMCluster
from distributed import Security

GIB_PER_CORE = 2
"""Memory of a chunk; each core of a job computes one."""


def main() -> int:
    """Start the jobs, run the command beside them, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="jobs, each of one worker on a node")
    parser.add_argument("--cores", type=int, default=4, help="cores of each job")
    parser.add_argument("--time", default="01:00:00", help="max time of each job")
    parser.add_argument("--partition", help="where jobs run")
    parser.add_argument("--account", help="who pays for them")
    parser.add_argument("--host", help="address of this host that jobs reach")
    parser.add_argument("--sbatch", action="append", default=[], help="a further option of sbatch, such as --qos=low")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what asks, such as ckpt-size sweep FILE")
    given = parser.parse_args()
    if not given.command:
        parser.error("give a command, such as ckpt-size sweep FILE --front")
    dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with tempfile.TemporaryDirectory(prefix="ckpt-dask-", dir=Path.cwd()) as folder:
        made = Security.temporary()
        files = {"ca_file": made.tls_ca_file, "client__cert": made.tls_client_cert, "client__key": made.tls_client_key}
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        memory = given.cores * GIB_PER_CORE
        with SLURMCluster(
            cores=given.cores,
            processes=1,
            memory=f"{memory}GiB",
            job_mem=f"{memory + 1}G",  # the worker itself, beside the processes of its chunks
            walltime=given.time,
            queue=given.partition,
            account=given.account,
            job_extra_directives=given.sbatch,
            scheduler_options={"host": given.host, "dashboard": False},
            protocol="tls://",
            security=made,
            shared_temp_directory=folder,
            log_directory=folder,
            python=sys.executable,
        ) as cluster:
            cluster.scale(jobs=given.jobs)
            cluster.wait_for_workers(1)
            paths = {f"DASK_DISTRIBUTED__COMM__TLS__{name.upper()}": f"{folder}/{name}" for name in files}
            command = [*given.command, "--dask", cluster.scheduler_address]
            return subprocess.run(command, env=os.environ | paths, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
