"""Tasks of `srun` as ranks: the variables that torchrun would have set, from those that Slurm sets.

So all that reads torchrun's variables, torch itself included, works under plain `srun` too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Below the range from which kernels give ports to outgoing connections.
_FIRST_PORT, _NUM_PORTS = 10_000, 20_000
_HOST = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")
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


def nodes_of_tasks(environment: Mapping[str, str]) -> list[str]:
    """The node of each task of a job step, as Slurm deals them out by default: node after node. Empty outside of one.

    Source: srun(1), SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE and --distribution.

    >>> nodes_of_tasks({"SLURM_STEP_NODELIST": "n[08-09],login", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"})
    ['n08', 'n08', 'n09', 'n09', 'login']
    """
    hosts = hosts_of(environment.get("SLURM_STEP_NODELIST", ""))
    counts = [
        int(number)
        for number, times in _TASKS.findall(environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
        for _ in range(int(times or 1))
    ]
    if len(hosts) != len(counts) or environment.get("SLURM_DISTRIBUTION", "block")[:5] != "block":
        return []
    return [host for host, count in zip(hosts, counts, strict=True) for _ in range(count)]


def hosts_of(nodelist: str) -> list[str]:
    """All hosts that a Slurm node list names.

    >>> hosts_of("a[1-2]b[08,10],c")
    ['a1b08', 'a1b10', 'a2b08', 'a2b10', 'c']
    """
    return [host for part in _HOST.findall(nodelist) for host in _expanded(part)]


def _expanded(part: str) -> list[str]:
    """One part of a node list, its brackets multiplied out."""
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, after = rest.partition("]")
    numbers = [number for span in inside.split(",") for number in _numbers(span)]
    return [f"{before}{number}{tail}" for number in numbers for tail in _expanded(after)]


def _numbers(span: str) -> list[str]:
    """The numbers of a span, as wide as they are written."""
    first, _, last = span.partition("-")
    return [f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]


def _port(environment: Mapping[str, str]) -> int:
    """A port on which the ranks can meet: the same for all of a step, another for another step."""
    job, step = (environment.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID"))
    numbers = [int(text) if text.isdecimal() else 0 for text in (job, step)]
    return _FIRST_PORT + (31 * numbers[0] + numbers[1]) % _NUM_PORTS
