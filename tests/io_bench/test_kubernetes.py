"""The Job for Kubernetes: valid, consistent, and its commands run on nodes that have the pods' names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sizing.storage.measurement import BenchmarkResult
from tests.testbed.glusterfs import glusterfs
from tests.testbed.launch import REPOSITORY, finish, start
from tests.testbed.network import Link, network

if TYPE_CHECKING:
    from tests.conftest import Testbed

FILE = REPOSITORY / "deploy/kubernetes/ckpt-bench-job.yaml"
RESULTS = FILE.with_name("ckpt-bench-results.yaml")


@pytest.fixture
def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(FILE.read_text()))


@pytest.fixture
def job(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return next(document for document in documents if document["kind"] == "Job")


@pytest.mark.parametrize("file", [FILE, RESULTS], ids=lambda file: file.name)
def test_the_documents_are_valid(file: Path) -> None:
    subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", file], check=True)


def test_a_second_run_overwrites_no_result_and_an_ended_job_goes(job: dict[str, Any]) -> None:
    (agent,) = job["spec"]["template"]["spec"]["containers"]
    assert "--output=/checkpoints/ckpt-bench-$(JOB_UID).json" in agent["args"]
    (uid,) = (variable for variable in agent["env"] if variable["name"] == "JOB_UID")
    path = uid["valueFrom"]["fieldRef"]["fieldPath"]
    assert path == "metadata.labels['batch.kubernetes.io/controller-uid']", "each Job has its own, whatever its name"
    assert job["spec"]["ttlSecondsAfterFinished"] > job["spec"]["activeDeadlineSeconds"]


def test_results_are_fetched_by_a_pod_with_the_volume_and_the_user_of_the_job(job: dict[str, Any]) -> None:
    pod, writer = yaml.safe_load(RESULTS.read_text())["spec"], job["spec"]["template"]["spec"]
    assert (pod["volumes"], pod["securityContext"]) == (writer["volumes"], writer["securityContext"])
    (reader,), (agent,) = pod["containers"], writer["containers"]
    (mount,) = reader["volumeMounts"]
    assert mount == agent["volumeMounts"][0] | {"readOnly": True}
    assert (reader["image"], reader["securityContext"]) == (agent["image"], agent["securityContext"])


def test_its_parts_agree(documents: list[dict[str, Any]], job: dict[str, Any]) -> None:
    service = next(document for document in documents if document["kind"] == "Service")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (agent,), (check,) = pod["containers"], pod["initContainers"]
    variables = {variable["name"]: variable.get("value") for variable in agent["env"]}
    assert spec["completions"] == spec["parallelism"] == int(variables["NUM_NODES"])
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": job["metadata"]["name"]}
    assert pod["subdomain"] == service["metadata"]["name"]
    ranks = spec["completions"] * int(variables["RANKS_PER_NODE"])
    assert f"--ranks={ranks}" in check["args"]
    assert {"--target=/checkpoints", "--bytes-per-rank=1GiB"} < set(check["args"])
    assert {"--target=/checkpoints", "--bytes-per-rank=1GiB"} < set(agent["args"])


@pytest.mark.long
def test_its_pods_check_and_measure_together(job: dict[str, Any], tmp_path: Path, testbed: Testbed) -> None:
    target = tmp_path / "checkpoints"
    target.mkdir()
    pod = job["spec"]["template"]["spec"]
    names = [f"ckpt-bench-{index}" for index in range(2)]
    hosts = [f"{name}.{pod['subdomain']}" for name in names]
    links = {"storage": Link()} | dict.fromkeys(hosts, Link())
    nodes = testbed(network(tmp_path, links, hostnames=dict(zip(hosts, names, strict=True))))
    pods = [nodes[host] for host in hosts]
    testbed(glusterfs(tmp_path, server=nodes["storage"], clients=pods, mount_point=target))

    def command(container: dict[str, Any], variables: dict[str, str]) -> list[str]:
        """What Kubernetes would run, small, and with this machine's Python."""
        words = [*container["command"], *container["args"]]
        expanded = [re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], word) for word in words]
        small = [word.replace("1GiB", "2MiB").replace("/checkpoints", str(target)) for word in expanded]
        return ["sh", "-c", 'PATH="$0:$PATH" exec "$@"', str(Path(sys.executable).parent), *small]

    checks = [start(node, command(pod["initContainers"][0], {}), tmp_path) for node in pods]
    assert [check.returncode for check in finish(checks)] == [0, 0]
    variables = [
        {"NUM_NODES": "2", "RANKS_PER_NODE": "1", "JOB_COMPLETION_INDEX": str(index), "POD_NAME": name, "JOB_UID": "7"}
        for index, name in enumerate(names)
    ]
    agents = [
        start(node, command(pod["containers"][0], settings), tmp_path, settings)
        for node, settings in zip(pods, variables, strict=True)
    ]
    ended = finish(agents)
    assert [agent.returncode for agent in ended] == [0, 0], ended
    result = BenchmarkResult.model_validate_json(pods[0].outside(target / "ckpt-bench-7.json").read_text())
    assert {(m.num_nodes, m.num_ranks, m.verified) for m in result.measurements} == {(2, 2, True)}
