"""Clients that generators make of the OpenAPI document, and nothing else, do what this project's own client does."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.conftest import result_document
from tests.testbed.processes import SECONDS_UNTIL_STUCK, done

HERE = Path(__file__).parent / "generated_clients"
PROGRAMS = Path(__file__).parents[2] / ".venv-clients" / "bin"
"""Made by `scripts/test long`: generators, and what runs the clients that they make."""

pytestmark = pytest.mark.long


@pytest.fixture
def document(client: httpx.Client, tmp_path: Path) -> Path:
    """The OpenAPI document, beside what uses a client made of it."""
    for name in ("storing.py", "storing.ts", "package.json", "tsconfig.json"):
        shutil.copy(HERE / name, tmp_path)
    file = tmp_path / "openapi.json"
    file.write_bytes(client.get("/openapi.json").content)
    return file


def told(command: list[str | Path], folder: Path, server: str, token: str, run_id: str) -> Any:
    """What a program prints that sizes, stores, publishes and is refused."""
    result = folder / "result.json"
    result.write_text(json.dumps(result_document(run_id)))
    ended = subprocess.run(
        [*command, server, token, result],
        capture_output=True,
        text=True,
        timeout=SECONDS_UNTIL_STUCK,
        check=False,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def check(said: Any, client: httpx.Client, name: str, run_id: str) -> None:
    """What a program said is what the service did."""
    saved = client.get(f"/v1/scenarios/{said['saved']}").json()
    assert saved["name"] == f"of {name}"
    assert (
        saved["scenario"].items() >= {"parallelism": {"data": 8}, "checkpoint": {"interval_seconds": "30min"}}.items()
    )
    report = client.get(f"/v1/scenarios/{said['saved']}/report").json()
    assert said == {
        "total_bytes": report["checkpoint"]["total_bytes"],
        "saved": saved["id"],
        "changed": 0,
        "published": run_id,
        "listed": [5e8],
        "refused": [422, "invalid-input", "parallelism.tensor"],
    }
    runs = client.get(f"/v1/storage-systems/{name.lower()}/runs").json()["items"]
    assert [run["run_id"] for run in runs] == [run_id]


def test_in_python(document: Path, client: httpx.Client, server: str, token: str) -> None:
    folder = document.parent
    settings = folder / "settings.json"
    settings.write_text(json.dumps({"post_hooks": []}))  # nobody reads this client, so no tool needs to format it
    making: list[str | Path] = [
        PROGRAMS / "openapi-python-client",
        "generate",
        "--path",
        document,
        "--meta",
        "none",
        "--fail-on-warning",
        "--config",
        settings,
    ]
    done([*making, "--output-path", folder / "generated"])
    said = told([PROGRAMS / "python", "storing.py"], folder, server, token, "from-python")
    check(said, client, "Python", "from-python")


def test_in_typescript(document: Path, client: httpx.Client, server: str, token: str) -> None:
    folder = document.parent
    (folder / "node_modules").symlink_to(HERE / "node_modules")
    node, made = PROGRAMS / "node", HERE / "node_modules" / ".bin"
    making: list[str | Path] = [node, made / "openapi-typescript", document, "--default-non-nullable=false"]
    done([*making, "--output", folder / "schema.d.ts"])
    done([node, made / "tsc", "--project", folder])
    said = told([node, folder / "made" / "storing.js"], folder, server, token, "from-typescript")
    check(said, client, "TypeScript", "from-typescript")
