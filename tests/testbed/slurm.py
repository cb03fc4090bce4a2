"""A Slurm cluster: a controller and compute nodes, from the distribution's packages."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.launch import Process, start
from tests.testbed.nodes import Node
from tests.testbed.processes import done, need, running, until

_CPUS_PER_NODE = 4

_CONFIGURATION = """\
ClusterName=testbed
SlurmctldHost={controller.name}({controller.address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.sock
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=10
SlurmdParameters=config_overrides
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
SlurmdSpoolDir={directory}/spool-%n
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={name} NodeAddr={address} CPUs={cpus} RealMemory=4000 State=UNKNOWN\n"


@dataclass(frozen=True, slots=True)
class Slurm:
    """A cluster to which jobs are given from its controller."""

    controller: Node
    configuration: Path

    @property
    def environment(self) -> dict[str, str]:
        """What its commands and daemons need to find it."""
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"SLURM_CONF": str(self.configuration), "PATH": programs}

    def start(self, *command: str | Path, directory: Path) -> Process:
        """`srun` and the like on the controller, with this Python's programs on the path."""
        return start(self.controller, list(map(str, command)), directory, self.environment)

    def batch_log(self, *arguments: str | Path, directory: Path) -> str:
        """What a job given to `sbatch` printed, once it has ended. Raises NotReady where it does not."""
        log = directory / "job.log"
        submitted, complaint = self.start("sbatch", "--output", log, *arguments, directory=directory).communicate()
        job = submitted.split()[-1:] or [complaint]
        until(lambda: not self.done("squeue", "--noheader", "--jobs", *job), otherwise=log.read_text)
        return log.read_text()

    def done(self, *command: str | Path) -> str:
        """What a short command prints on the controller."""
        return done(self.controller.command(*command, environment=self.environment))


@contextmanager
def slurm(directory: Path, *, controller: Node, nodes: Sequence[Node]) -> Iterator[Slurm]:
    """A cluster of `nodes`, all idle. Jobs see files as their node does.

    Raises Unavailable where Slurm is not installed, NotReady where it does not start.
    """
    need("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
    cluster = Slurm(controller, _configured(directory, controller, nodes))
    with contextlib.ExitStack() as stack:
        stack.enter_context(_munge(directory))
        stack.enter_context(_daemon(cluster, controller, "slurmctld", answer="scontrol ping", hopes_for="is UP"))
        for node in nodes:
            state = f"sinfo --noheader --Node --nodes={node.name} --format=%T"
            stack.enter_context(_daemon(cluster, node, f"slurmd -N {node.name}", answer=state, hopes_for="idle"))
        yield cluster


@contextmanager
def _daemon(cluster: Slurm, node: Node, daemon: str, *, answer: str, hopes_for: str) -> Iterator[None]:
    """A daemon on a node, ready once the command `answer` prints what is hoped for."""
    log = cluster.configuration.parent / f"{daemon.split(maxsplit=1)[0]}-{node.name}.log"
    command = node.command(*daemon.split(), "-D", environment=cluster.environment)
    with running(command, log=log, is_ready=lambda: hopes_for in _said(cluster, answer)):
        yield


def _said(cluster: Slurm, command: str) -> str:
    """What a command says; nothing where the controller does not answer yet."""
    try:
        return cluster.done(*command.split())
    except RuntimeError:
        return ""


def _configured(directory: Path, controller: Node, nodes: Sequence[Node]) -> Path:
    configuration = directory / "slurm.conf"
    rows = [_NODE.format(name=node.name, address=node.address, cpus=_CPUS_PER_NODE) for node in nodes]
    configuration.write_text(_CONFIGURATION.format(controller=controller, directory=directory) + "".join(rows))
    (directory / "state").mkdir()
    return configuration


@contextmanager
def _munge(directory: Path) -> Iterator[None]:
    """The daemon that vouches for users; its socket is a file, which all nodes see."""
    key, socket = directory / "munge.key", directory / "munge.sock"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    files = [f"--{kind}-file={directory}/munge.{kind}" for kind in ("pid", "log", "seed")]
    command = ["munged", "--force", "--foreground", f"--key-file={key}", f"--socket={socket}", *files]
    with running(command, log=directory / "munged.log", is_ready=socket.exists):
        yield
