"""A storage system whose limits are known: nodes behind shaped links, GlusterFS behind one shaped link for all."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sizing.storage.measurement import BenchmarkResult
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from sizing.storage.transfer import as_number
from tests.testbed.glusterfs import glusterfs
from tests.testbed.launch import agents, finish
from tests.testbed.network import Link, network
from tests.testbed.nodes import Node

TRUTH = StorageProfile.of(
    write=Rates(node_bytes_per_second=20e6, file_system_bytes_per_second=50e6),
    read=Rates(node_bytes_per_second=25e6, file_system_bytes_per_second=60e6),
)
"""Rates of the links: of each node, and of the storage. Slow, so that the limit is the links and not this machine."""

_MAX_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class KnownStorage:
    """Nodes that have mounted one file system, all rates known."""

    nodes: Sequence[Node]
    mount_point: Path
    directory: Path

    def scan(
        self, *, num_nodes: Sequence[int], writers: Sequence[int], sizes: Sequence[str], repetitions: int, name: str
    ) -> BenchmarkResult:
        """What `ckpt-bench scan` with direct I/O measures under torchrun, one torchrun on each node.

        Raises RuntimeError with the agents' complaint where the scan fails.
        """
        output = self.directory / f"{name}.json"
        flags: dict[str, str | Path] = {
            "--target": self.mount_point,
            "--engine": "direct",
            "--nodes": _listed(num_nodes),
            "--writers": _listed(writers),
            "--bytes-per-rank": _listed(sizes),
            "--repetitions": str(repetitions),
            "--output": output,
        }
        arguments = ["scan", *(part for flag in flags.items() for part in flag)]
        nodes = self.nodes[: max(num_nodes)]
        with agents(nodes, *arguments, ranks_per_node=max(writers), directory=self.directory) as started:
            ended = finish(started, seconds=_MAX_SECONDS)
        if any(process.returncode for process in ended):
            raise RuntimeError("\n".join(process.stderr for process in ended)[-4000:])
        return BenchmarkResult.model_validate_json(output.read_text())


@contextmanager
def known_storage(directory: Path, *, num_nodes: int, truth: StorageProfile = TRUTH) -> Iterator[KnownStorage]:
    """So many nodes with the file system mounted; all of it is taken away again.

    Raises Unavailable where this machine cannot run it.
    """
    client = Link(
        sends_bytes_per_second=as_number(truth.write.node_bytes_per_second),
        receives_bytes_per_second=as_number(truth.read.node_bytes_per_second),
    )
    server = Link(
        sends_bytes_per_second=as_number(truth.read.file_system_bytes_per_second),
        receives_bytes_per_second=as_number(truth.write.file_system_bytes_per_second),
    )
    mount_point = directory / "mnt"
    mount_point.mkdir()
    links = {"storage": server} | {f"node{number}": client for number in range(1, num_nodes + 1)}
    with contextlib.ExitStack() as stack:
        machines = stack.enter_context(network(directory, links))
        nodes = [machines[name] for name in links if name != "storage"]
        stack.enter_context(glusterfs(directory, server=machines["storage"], clients=nodes, mount_point=mount_point))
        yield KnownStorage(nodes, mount_point, directory)


def _listed(values: Sequence[object]) -> str:
    return ",".join(map(str, values))
