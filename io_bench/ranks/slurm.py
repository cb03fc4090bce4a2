"""Tasks of `srun` as ranks: the variables that torchrun would have set, from those that Slurm sets.

So all that reads torchrun's variables, torch itself included, works under plain `srun` too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Below the range from which kernels give ports to outgoing connections.
_FIRST_PORT, _NUM_PORTS = 10_000, 20_000
_HOST = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_FIRST_NUMBER = re.compile(r"\[(\w+)[^\]]*\]")


def torchrun_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What torchrun would set for this task of a job step, as far as it is not set already.

    Nothing outside of a step (a batch script has SLURM_PROCID too, but runs alone), in a step of one task (an
    interactive shell, in which ranks may be started otherwise) and where a launcher inside the step, such as torchrun,
    has set RANK.

    >>> step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7",
    ...         "SLURM_STEP_ID": "1", "SLURM_STEP_NODELIST": "dgx[03-05,9]"}
    >>> torchrun_variables(step)["RANK"], torchrun_variables(step)["MASTER_ADDR"]
    ('2', 'dgx03')
    """
    if "RANK" in environment or environment.get("SLURM_STEP_NUM_TASKS", "1") == "1":
        return {}
    found = {
        "RANK": environment.get("SLURM_PROCID", ""),
        "WORLD_SIZE": environment["SLURM_STEP_NUM_TASKS"],
        "LOCAL_RANK": environment.get("SLURM_LOCALID", ""),
        "MASTER_ADDR": first_host(environment.get("SLURM_STEP_NODELIST", "")),
        "MASTER_PORT": str(_port(environment)),
    }
    return {name: value for name, value in found.items() if name not in environment}


def first_host(nodelist: str) -> str:
    """The first of the hosts that a Slurm node list names; "" where it names none.

    >>> first_host("rack1-n[07-12,20]-ib,login"), first_host("a,b[1-2]"), first_host("x[1-2]y[3-4]")
    ('rack1-n07-ib', 'a', 'x1y3')
    """
    host = _HOST.match(nodelist)
    return _FIRST_NUMBER.sub(r"\1", host.group()) if host else ""


def _port(environment: Mapping[str, str]) -> int:
    """A port on which the ranks can meet: the same for all of a step, another for another step."""
    job, step = (environment.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    numbers = [int(text) if text.isdecimal() else 0 for text in (job, step)]
    return _FIRST_PORT + (31 * numbers[0] + numbers[1]) % _NUM_PORTS
