"""Which rank this process is, and on which node, as the launcher's environment says."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from sizing.errors import InvalidInput

# Open MPI; MPICH, Intel MPI and Cray; MVAPICH2; IBM's jsrun.
_MPI_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE")
_NODE_VARIABLES = ("SLURMD_NODENAME", "GROUP_RANK", "POD_NAME")


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement of one rank: its number, its node, and its process.

    `node` tells machines apart, `pid_namespace` says among whom `pid` means the same process.
    """

    rank: int
    num_ranks: int
    local_rank: int
    node: str
    hostname: str
    pid: int
    pid_namespace: str

    @property
    def title(self) -> str:
        """Name of the rank as people can find it."""
        return f"Rank {self.rank} (process {self.pid} on {self.hostname})"

    def is_neighbour_of(self, other: Placement) -> bool:
        """Whether both see the same process table."""
        return (self.node, self.pid_namespace) == (other.node, other.pid_namespace)

    def is_dead(self) -> bool:
        """Whether the process has ended, for a neighbour to ask. A zombie has."""
        try:
            return psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True


def placement_in(environment: Mapping[str, str]) -> Placement:
    """Read the placement from RANK, WORLD_SIZE and LOCAL_RANK; alone where RANK is not set.

    Raises InvalidInput for variables that no launcher would set, for ranks of mpirun, and for ranks that know only a
    part of what a launcher tells them: they would each run alone, at the same time, and take the others' load for the
    storage's slowness.
    """
    for variable in () if "RANK" in environment else _MPI_SIZES:
        if environment.get(variable, "1") != "1":
            rule = "must be 1: mpirun is not supported as a launcher"
            raise InvalidInput.of(variable, rule, value=environment[variable], remedy=_REMEDY)
    _check_complete(environment)
    rank = _whole_number(environment, "RANK", default=0)
    num_ranks = _whole_number(environment, "WORLD_SIZE", default=1) if "RANK" in environment else 1
    if rank >= num_ranks:
        raise InvalidInput.of("RANK", f"must be less than WORLD_SIZE ({num_ranks})", value=rank, remedy=_REMEDY)
    return Placement(
        rank=rank,
        num_ranks=num_ranks,
        local_rank=_whole_number(environment, "LOCAL_RANK", default=rank),
        node=node_in(environment),
        hostname=socket.gethostname(),
        pid=os.getpid(),
        pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
    )


def node_in(environment: Mapping[str, str]) -> str:
    """Make a name that differs between nodes, also where host names are equal.

    >>> node_in({"GROUP_RANK": "3"})
    'GROUP_RANK=3'
    """
    for variable in _NODE_VARIABLES:
        if environment.get(variable):
            return f"{variable}={environment[variable]}"
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{socket.gethostname()}/{boot_id}"


_REMEDY = "start the ranks with torchrun or srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"


def _check_complete(environment: Mapping[str, str]) -> None:
    """Raise InvalidInput where a rank was told its place among others only in part."""
    present = [variable for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK") if variable in environment]
    missing = [variable for variable in ("RANK", "WORLD_SIZE") if variable not in environment]
    if present and missing:
        rule = f"is set without {' and '.join(missing)}"
        remedy = f"{_REMEDY}; or unset it to run alone"
        raise InvalidInput.of(present[0], rule, value=environment[present[0]], remedy=remedy)


def _whole_number(environment: Mapping[str, str], variable: str, *, default: int) -> int:
    text = environment.get(variable, str(default))
    if not text.isdecimal():
        raise InvalidInput.of(variable, "must be a whole number", value=text, remedy=_REMEDY)
    return int(text)
