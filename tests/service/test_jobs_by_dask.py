"""Jobs whose chunks the workers of a Dask scheduler compute, and what is said where there is none."""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path

import httpx
import pytest

from tests.service.conftest import Terminal, serving
from tests.service.test_jobs import asked, in_state
from tests.testbed.dask import cluster
from tests.testbed.processes import SECONDS_UNTIL_STUCK

MANY_SCENARIOS = {
    "scenario": {
        "model": {"preset": "gpt2"},
        "parallelism": {"data": list(range(1, 258))},
        "checkpoint": {"interval_seconds": "1h"},
    }
}
"""Two chunks: of 256 scenarios each at most."""


@pytest.mark.long
def test_a_job_by_dask_has_the_answer_of_one_process(tmp_path: Path) -> None:
    database = ["--database-url", f"sqlite:///{tmp_path}/service.db", "--port", "0"]
    with (
        cluster(tmp_path) as running,
        serving(tmp_path / "log", *database, "--dask", running.address) as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        job = asked(client, "/v1/sweeps", MANY_SCENARIOS)
        in_state(client, job, "done")
        assert client.get(f"{job}/result").content == client.post("/v1/sweeps", json=MANY_SCENARIOS).content


@pytest.mark.long
def test_a_job_without_its_scheduler_fails_by_name_and_other_questions_are_answered(tmp_path: Path) -> None:
    database = ["--database-url", f"sqlite:///{tmp_path}/service.db", "--port", "0"]
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    with (
        serving(tmp_path / "log", *database, "--dask", nobody) as (_, address),
        httpx.Client(base_url=address, timeout=SECONDS_UNTIL_STUCK) as client,
    ):
        job = asked(client, "/v1/sweeps", MANY_SCENARIOS)
        in_state(client, job, "failed")
        problem = client.get(f"{job}/result")
        assert (problem.status_code, problem.json()["code"]) == (503, "no-cluster")
        assert re.match(r"CKPT_DASK cannot be reached within 30\.00 s", problem.json()["detail"])
        assert client.post("/v1/sweeps", json=MANY_SCENARIOS).status_code == 200


def test_at_the_start_an_address_that_is_none_and_a_library_that_is_missing_are_named(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, errors = terminal("--dask", "scheduler:8786")
    assert code == 2
    assert errors.startswith("error: --dask must be tcp:// or tls://, a host and a port, got 'scheduler:8786'")
    monkeypatch.setenv("CKPT_DASK", "tcp://127.0.0.1:8786")
    monkeypatch.setitem(sys.modules, "distributed", None)
    sentence = "CKPT_DASK needs the library distributed: pip install 'checkpoint-sizing[cluster]'."
    assert terminal() == (2, "", f"error: {sentence}\n")
