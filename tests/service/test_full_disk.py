"""A disk that is full, or can only be read: a clear answer, nothing half written, and what can be answered is."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.io_bench.test_full_disk import fill
from tests.service.conftest import bearer, created_token, result_document, serving
from tests.testbed.file_systems import disk
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from tests.conftest import Testbed


def test_a_full_disk_is_said_and_survived(testbed: "Testbed", tmp_path: Path) -> None:
    small_disk = testbed(disk(tmp_path, num_bytes=16 << 20)).path
    url = f"sqlite:///{small_disk}/sizing.sqlite3"
    arguments = ("--port", "0", "--database-url", url, "--requests-per-second", "0")
    with (
        serving(tmp_path / "log", *arguments) as (_, address),
        httpx.Client(
            base_url=address, timeout=SECONDS_UNTIL_STUCK, headers=bearer(created_token(url, "agents"))
        ) as client,
    ):
        assert client.post("/v1/storage-systems", json={"name": "s"}).status_code == 201
        kept = []
        fill(small_disk / "neighbour")
        for number in range(40):
            document = result_document(f"run-{number}") | {"warnings": ["x" * 100_000]}
            answer = client.post("/v1/storage-systems/s/runs", json=document)
            if answer.status_code == 201:
                kept.append(f"run-{number}")
            else:
                assert (answer.status_code, answer.json()["code"]) == (507, "storage-full"), answer.text
        assert len(kept) < 40
        assert [run["run_id"] for run in client.get("/v1/storage-systems/s/runs").json()["items"]] == kept[::-1]
        assert client.post("/v1/sizings", json={"model": {"preset": "gpt2"}}).status_code == 200
        (small_disk / "neighbour").unlink()
        assert client.post("/v1/storage-systems/s/runs", json=result_document("later")).status_code == 201
        listed = client.get("/v1/storage-systems/s/runs", params={"limit": 200}).json()["items"]
        assert [run["run_id"] for run in listed] == ["later", *kept[::-1]]
        assert client.get("/readyz").status_code == 200
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_disk_that_can_only_be_read_any_more_is_said_and_the_rest_answered(
    testbed: "Testbed", tmp_path: Path
) -> None:
    """As the kernel leaves a file system after an error of its disk."""
    broken_disk = testbed(disk(tmp_path, num_bytes=32 << 20)).path
    url = f"sqlite:///{broken_disk}/sizing.sqlite3"
    with (
        serving(tmp_path / "log", "--port", "0", "--database-url", url) as (_, address),
        httpx.Client(
            base_url=address, timeout=SECONDS_UNTIL_STUCK, headers=bearer(created_token(url, "agents"))
        ) as client,
    ):
        assert client.post("/v1/storage-systems", json={"name": "before"}).status_code == 201
        subprocess.run(["mount", "-o", "remount,abort", broken_disk], check=True)
        for _ in range(2):
            answer = client.post("/v1/storage-systems", json={"name": "after"})
            assert (answer.status_code, answer.json()["code"]) == (503, "database-unavailable")
            assert answer.headers["retry-after"]
        listed = client.get("/v1/storage-systems").json()["items"]
        assert [system["name"] for system in listed] == ["before"]
        assert client.post("/v1/sizings", json={"model": {"preset": "gpt2"}}).status_code == 200
        assert client.get("/healthz").status_code == 200
    assert "Traceback" not in (tmp_path / "log").read_text()
