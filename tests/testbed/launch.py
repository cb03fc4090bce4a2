"""Starting ranks of the agent on nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.nodes import Node
from tests.testbed.processes import SECONDS_UNTIL_STUCK, NotReady, end, where_they_stand

REPOSITORY = Path(__file__).parents[2]
_PORT = 29500
# What torchrun and torch print of their own accord.
_QUIET = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
# Who is ended by a signal says where it was.
_LAST_WORDS = {"PYTHONFAULTHANDLER": "1"}

Process = subprocess.Popen[str]
Finished = subprocess.CompletedProcess[str]


def torchrun(nodes: Sequence[Node], *, node_rank: int, ranks_per_node: int) -> list[str]:
    """The command line of torchrun for one of several nodes, which meet on the first; a module follows."""
    together = ["--nnodes", len(nodes), "--node-rank", node_rank, "--nproc-per-node", ranks_per_node]
    meeting = ["--master-addr", nodes[0].address, "--master-port", _PORT]
    return [sys.executable, "-m", "torch.distributed.run", *map(str, [*together, *meeting]), "-m"]


@contextmanager
def agents(
    nodes: Sequence[Node],
    *arguments: str | Path,
    ranks_per_node: int,
    directory: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[list[Process]]:
    """`ckpt-bench` under torchrun on every node, each started in `directory`; ended with the block."""
    started: list[Process] = []
    try:
        for node_rank, node in enumerate(nodes):
            launcher = torchrun(nodes, node_rank=node_rank, ranks_per_node=ranks_per_node)
            started.append(start(node, [*launcher, "io_bench", *map(str, arguments)], directory, environment))
        yield started
    finally:
        for process in started:
            end(process)
            process.communicate()


def start(node: Node, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> Process:
    """A process on a node, with this repository's packages and its output piped."""
    variables = {"PYTHONPATH": str(REPOSITORY)} | _QUIET | _LAST_WORDS | dict(environment or {})
    return subprocess.Popen(
        node.command(*command, directory=directory, environment=variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(processes: Sequence[Process], *, seconds: float = SECONDS_UNTIL_STUCK) -> list[Finished]:
    """Wait for the end of all, reading what each prints meanwhile: who cannot print waits, and others for it.

    Raises NotReady, with where each of them stands, where one does not end.
    """
    with ThreadPoolExecutor(len(processes)) as pool:
        said = [pool.submit(process.communicate, timeout=seconds) for process in processes]
    try:
        return [
            subprocess.CompletedProcess(process.args, process.returncode, *of_process.result())
            for process, of_process in zip(processes, said, strict=True)
        ]
    except subprocess.TimeoutExpired:
        raise NotReady(where_they_stand(processes)) from None
