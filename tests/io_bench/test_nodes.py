"""Several nodes, each with its own network, host name and process table, on a real parallel file system."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sizing.storage.measurement import BenchmarkResult
from tests.testbed.glusterfs import glusterfs
from tests.testbed.launch import Process, agents, finish
from tests.testbed.network import Link, network
from tests.testbed.nodes import Node

if TYPE_CHECKING:
    from tests.conftest import Testbed


@dataclass(frozen=True)
class Cluster:
    """Two nodes that share a target, and a directory to work in."""

    nodes: tuple[Node, Node]
    target: Path
    directory: Path

    @property
    def target_outside(self) -> Path:
        return self.nodes[0].outside(self.target)


@pytest.fixture
def cluster(tmp_path: Path, testbed: Testbed) -> Cluster:
    target, directory = tmp_path / "target", tmp_path / "work"
    target.mkdir()
    directory.mkdir()
    hostnames = {"n1": "worker", "n2": "worker"}
    nodes = testbed(network(tmp_path, {"n1": Link(), "n2": Link(), "storage": Link()}, hostnames=hostnames))
    clients = (nodes["n1"], nodes["n2"])
    testbed(glusterfs(tmp_path, server=nodes["storage"], clients=clients, mount_point=target))
    return Cluster(clients, target, directory)


def test_ranks_on_two_nodes_with_one_host_name_measure_together(cluster: Cluster, testbed: Testbed) -> None:
    flags = ("--bytes-per-rank", "2MiB", "--repetitions", "2", "--output", "r.json")
    launched: list[Process] = testbed(
        agents(cluster.nodes, "run", "--target", cluster.target, *flags, ranks_per_node=2, directory=cluster.directory)
    )
    first, second = finish(launched, seconds=90)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    result = BenchmarkResult.model_validate_json((cluster.directory / "r.json").read_text())
    assert {(m.num_nodes, m.num_ranks, m.verified) for m in result.measurements} == {(2, 4, True)}
    environment: dict[str, Any] = result.environment
    assert environment["rank_nodes"] == ["GROUP_RANK=0"] * 2 + ["GROUP_RANK=1"] * 2
    assert {node["mount"]["type"] for node in environment["nodes"].values()} == {"fuse.glusterfs"}
    assert "4 ranks on 2 nodes wrote" in first.stdout
    assert list(cluster.target_outside.iterdir()) == []
