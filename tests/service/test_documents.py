"""The pages and the guide: nothing from elsewhere, and everything that they promise."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.http.problems import (
    DATABASE_FULL,
    DATABASE_UNAVAILABLE,
    INTERNAL_ERROR,
    KINDS,
    MALFORMED,
    METHOD_NOT_ALLOWED,
)
from service.settings import Settings, variable_of
from tests.service.conftest import PROGRAM, ckpt_serve
from tests.testbed.processes import SECONDS_UNTIL_STUCK

GUIDE = (Path(__file__).parents[2] / "docs" / "rest.md").read_text()


@pytest.mark.parametrize(("path", "min_links"), [("/", 40), ("/scenarios", 20), ("/docs", 5)])
def test_a_page_loads_nothing_from_elsewhere(client: httpx.Client, path: str, min_links: int) -> None:
    page = client.get(path)
    assert page.headers["content-type"].startswith("text/html")
    links = re.findall(r"""(?:src|href)=["']([^"']+)""", page.text)
    links = [link for link in links if not link.startswith("#")]
    assert len(links) >= min_links
    assert not [link for link in links if re.match(r"\w+:|//", link)]
    for link in links:
        asset = client.get(page.url.join(link))
        assert asset.status_code == 200
        assert len(asset.content) > 50


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_a_page_runs_its_own_scripts_alone(client: httpx.Client, path: str) -> None:
    page = client.get(path)
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert policy["connect-src"] == "'self'"
    assert "http" not in page.text + page.headers["content-security-policy"]
    assert not re.search(r"<script>|\son\w+=", page.text)


def test_every_setting_is_in_the_guide_and_in_the_help() -> None:
    shown = ckpt_serve("--help-all").stdout
    for name in Settings.model_fields:
        variable = variable_of(name)
        flag = f"--{name.replace('_', '-')}"
        assert re.search(rf"^\| `{flag}` \| `{variable}` \|", GUIDE, re.MULTILINE), name
        assert flag in shown
        assert variable in shown


def test_every_code_is_in_the_guide() -> None:
    kinds = [*KINDS.values(), MALFORMED, METHOD_NOT_ALLOWED, INTERNAL_ERROR, DATABASE_UNAVAILABLE, DATABASE_FULL]
    for kind in kinds:
        assert re.search(rf"^\| {kind.status} \| `{kind.code}` \|", GUIDE, re.MULTILINE), kind.code


def not_in_the_guide(document: dict[str, Any], guide: str) -> list[tuple[str, str]]:
    """The routes of a document that have no row in the guide."""
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if f"{method.upper()} {re.sub('(scenario|calibration|link)_id', 'id', path)}`" not in guide
    ]


def test_every_route_is_in_the_guide(client: httpx.Client) -> None:
    assert not_in_the_guide(client.get("/openapi.json").json(), GUIDE) == []


@pytest.mark.long
def test_the_commands_of_the_guide_do_what_it_says(server: str, database_url: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    program = f'ckpt-serve() {{ {PROGRAM[0]} -c "{PROGRAM[2]}" "$@"; }}'
    script = "\n".join(["set -e", program, *blocks]).replace("http://127.0.0.1:8000", server)
    environment = os.environ | {"DATABASE_URL": database_url}
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=SECONDS_UNTIL_STUCK,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert '"errors"' not in done.stdout
    assert done.stdout.count('"20261121T120000Z-1a2b3c"') == 6  # published twice, listed, read, withdrawn, in the trend
    assert '"reason":"measured through the old switch"' in done.stdout
    assert '"owners":["agents"]' in done.stdout
    assert "204" in done.stdout
    assert "304" in done.stdout


def test_the_python_of_the_guide_runs(server: str, token: str, tmp_path: Path) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    code = block.replace("http://127.0.0.1:8000", server)
    environment = os.environ | {"CKPT_TOKEN": token}
    subprocess.run([sys.executable, "-c", code], timeout=SECONDS_UNTIL_STUCK, check=True, env=environment, cwd=tmp_path)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")


def test_the_error_of_the_guide_is_what_the_service_answers(client: httpx.Client) -> None:
    (block,) = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    refused = client.post("/v1/sizings", json={"model": {"preset": "gpt2"}, "parallelism": {"tensor": 0}})
    assert refused.json() == json.loads(block)
