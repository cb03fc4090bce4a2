"""The files for Kubernetes as Kustomize puts them together: the service, its PostgreSQL, and workers of Dask."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from executors.dask import check_scheduler
from service.settings import Settings, variable_of

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
ADDED = [
    document
    for name in ("postgresql.yaml", "dask/dask.yaml")
    for document in yaml.safe_load_all((FOLDER / name).read_text())
]
WORKLOADS = [document for document in ADDED if document["kind"] in ("Deployment", "StatefulSet")]
PATCH = yaml.safe_load(yaml.safe_load((FOLDER / "dask" / "kustomization.yaml").read_text())["patches"][0]["patch"])


def named(documents: list[Any], kind: str, name: str) -> Any:
    (found,) = (each for each in documents if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


@pytest.mark.long
def test_the_files_are_some() -> None:
    files = [FOLDER / "postgresql.yaml", FOLDER / "dask" / "dask.yaml"]
    subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", *files], check=True)


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda each: each["metadata"]["name"])
def test_every_pod_is_nobody_is_probed_bounded_and_behind_a_policy(workload: Any) -> None:
    pod = workload["spec"]["template"]
    assert workload["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["runAsUser"] > 0
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
    assert container["resources"]["limits"]["memory"]
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    policies = (each["spec"]["podSelector"]["matchLabels"] for each in ADDED if each["kind"] == "NetworkPolicy")
    assert any(labels.items() <= pod["metadata"]["labels"].items() for labels in policies)


def test_the_service_asks_the_scheduler_that_is_there() -> None:
    (container,) = PATCH["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each["value"] for each in container["env"]}
    scheme, _, place = variables[variable_of("dask")].partition("://")
    host, _, port = place.partition(":")
    service = named(ADDED, "Service", host)
    assert (scheme, int(port)) == ("tls", service["spec"]["ports"][0]["port"])
    check_scheduler(f"tcp://{place}", "dask")
    worker = named(ADDED, "Deployment", "checkpoint-sizing-dask-worker")["spec"]["template"]["spec"]
    scheduler = named(ADDED, "Deployment", host)["spec"]["template"]
    assert service["spec"]["selector"] == scheduler["metadata"]["labels"]
    assert variables[variable_of("dask")] in worker["containers"][0]["command"]
    for files in (container, worker["containers"][0], scheduler["spec"]["containers"][0]):
        (folder,) = (mount["mountPath"] for mount in files["volumeMounts"] if mount["name"] == "dask")
        paths = {each["value"] for each in files["env"] if "__TLS__" in each["name"]}
        assert paths == {f"{folder}/{name}.pem" for name in ("ca", "cert", "key")}


def test_a_worker_has_memory_for_all_chunks_that_it_computes_at_once() -> None:
    worker = named(ADDED, "Deployment", "checkpoint-sizing-dask-worker")["spec"]["template"]["spec"]["containers"][0]
    command = worker["command"]
    given = {
        flag: command[place + 1] for place, flag in enumerate(command) if flag.startswith("--") and flag[-1] != "y"
    }
    threads, chunks = int(given["--nthreads"]), int(given["--memory-limit"].removesuffix("GiB"))
    assert chunks * 2**30 == threads * Settings.model_fields["compute_memory_bytes"].default
    assert worker["resources"]["limits"]["memory"] == f"{chunks + 1}Gi"
    assert worker["resources"]["requests"]["cpu"] == str(threads)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
def test_kustomize_puts_them_together() -> None:
    built = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=True).stdout
    documents = list(yaml.safe_load_all(built))
    in_one_file = list(yaml.safe_load_all((FOLDER / "service.yaml").read_text()))
    assert len(documents) == len(in_one_file) + len(ADDED)
    service = named(documents, "Deployment", "checkpoint-sizing")["spec"]
    (container,) = service["template"]["spec"]["containers"]
    names = [each["name"] for each in container["env"]]
    assert {variable_of("dask"), "DATABASE_URL"} <= set(names)
    assert len(names) == len(set(names))
    assert service["replicas"] == 2
    assert {volume["name"] for volume in service["template"]["spec"]["volumes"]} == {"tmp", "dask"}
