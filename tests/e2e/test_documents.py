"""What the documents promise is run as they print it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.conftest import database_url, server, server_log

__all__ = ["database_url", "server", "server_log"]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROGRAMS = {
    "ckpt-size": "from sizing.cli.main import main; main()",
    "ckpt-bench": "from io_bench.cli import main; main()",
}


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environment,
    )


def test_the_readmes_question_gets_the_readmes_answer() -> None:
    block = re.search(r"\$ (ckpt-size --model .*?)\n(megatron-1t:.*?)\n\.\.\.\n(warning.*?)\n```", README, re.DOTALL)
    assert block is not None
    arguments = shlex.split(block[1].replace("\\\n", " "))
    found = subprocess.run(
        [sys.executable, "-c", PROGRAMS[arguments[0]], *arguments[1:]],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    printed = [line.rstrip() for line in found.stdout.splitlines()]
    for line in block[2].splitlines() + block[3].splitlines():
        assert line.rstrip() in printed


def test_the_readmes_python_runs() -> None:
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code is not None
    found = subprocess.run([sys.executable, "-c", code[1]], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == ["5682353668096", "128"]


def test_the_readmes_curl_is_answered(server: str) -> None:
    command = re.search(r"```sh\n(curl .*?)```", README, re.DOTALL)
    assert command is not None
    found = shell(command[1].replace("http://127.0.0.1:8000", server))
    assert json.loads(found.stdout)["layout"]["num_writers"] == 512


def test_links_between_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_a_measured_disk_feeds_the_answer(tmp_path: Path) -> None:
    arguments = ["--target", str(tmp_path), "--bytes-per-rank", "16MiB", "--repetitions", "1"]
    result = tmp_path / "result.json"
    command = [sys.executable, "-c", PROGRAMS["ckpt-bench"], "run", *arguments, "--output", str(result)]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    rates = {m["operation"]: m["bytes_per_second"] for m in json.loads(result.read_text())["measurements"]}
    flags = ["--model", "gpt2", "--storage", str(result), "--json"]
    found = subprocess.run(
        [sys.executable, "-c", PROGRAMS["ckpt-size"], *flags], capture_output=True, text=True, timeout=60, check=True
    )
    report = json.loads(found.stdout)
    assert report["write"]["bytes_per_second"] == pytest.approx(rates["write"])
    assert report["restore"]["bytes_per_second"] == pytest.approx(rates["restore"])
