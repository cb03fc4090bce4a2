"""What the documents promise is run as they print it."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.conftest import result_document
from tests.testbed.processes import SECONDS_UNTIL_STUCK

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "docs" / "tour.md").read_text()
PROGRAMS = {
    "ckpt-size": "from sizing.cli.main import main; main()",
    "ckpt-serve": "from service.cli.main import main; main()",
    "ckpt-bench": "from io_bench.commands.main import main; main()",
}


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=SECONDS_UNTIL_STUCK,
        check=False,
        env=os.environ | environment,
    )


def test_the_readmes_question_gets_the_readmes_answer() -> None:
    block = re.search(r"\$ (ckpt-size --model .*?)\n(megatron-1t:.*?)\n```", README, re.DOTALL)
    assert block is not None
    arguments = shlex.split(block[1].replace("\\\n", " "))
    found = subprocess.run(
        [sys.executable, "-c", PROGRAMS[arguments[0]], *arguments[1:]],
        capture_output=True,
        text=True,
        timeout=SECONDS_UNTIL_STUCK,
        check=True,
        env=dict(os.environ),  # without what a library of C, as readline, has put into the environment: a width
    )
    assert [line.rstrip() for line in found.stdout.splitlines()] == block[2].splitlines()


def script_of(*lines: str) -> str:
    """A script of bash that knows the programs by their names and ends where a line fails."""
    programs = (f"{name}() {{ {sys.executable} -c '{code}' \"$@\"; }}" for name, code in PROGRAMS.items())
    return "\n".join(("set -e", *programs, *lines))


def python_of_tour(text: str) -> str:
    """The block of Python that holds a text."""
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", TOUR, re.DOTALL) if text in block)
    return str(code)


def python(code: str) -> list[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=True
    ).stdout.split()


def test_the_tours_python_runs() -> None:
    assert python(python_of_tour("import answer")) == ["5681947443200", "16384"]


@pytest.mark.long
def test_what_the_tour_asks_and_publishes_over_rest_is_done(server: str, database_url: str, tmp_path: Path) -> None:
    asks, saves, publishes = re.findall(r"```sh\n([^`]*curl .*?)```", TOUR, re.DOTALL)
    found = shell(asks.replace("http://127.0.0.1:8000", server))
    assert json.loads(found.stdout)["layout"]["num_writers"] == 512
    (tmp_path / "result.json").write_text(json.dumps(result_document("of-the-tour")))
    script = script_of(f"cd {tmp_path}", saves, publishes).replace("http://127.0.0.1:8000", server)
    found = shell(script, DATABASE_URL=database_url, XDG_STATE_HOME=str(tmp_path))
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")
    assert "Published of-the-tour." in found.stdout
    assert json.loads(found.stdout.splitlines()[-1])["items"][0]["run_id"] == "of-the-tour"
    client = python_of_tour("import Client").replace("http://127.0.0.1:8000", server)
    assert python(client)[1:] == ["['of-the-tour']"]


@pytest.mark.long
def test_what_the_tour_measures_is_measured_and_answers(tmp_path: Path) -> None:
    """Every command of its consoles but those of a cluster, with less to write; one reads what another wrote."""
    lines = re.findall(r"^\$ (ckpt-.*)", TOUR, re.MULTILINE)
    assert [line.split()[1] for line in lines] == [
        "run",
        "--storage",
        "scan",
        "check",
        "clean",
        "calibrate",
        "--storage",
    ]
    less = {
        "/mnt/checkpoints": str(tmp_path / "checkpoints"),
        "--bytes-per-rank 2GiB": "--bytes-per-rank 1MiB --repetitions 1",
        "--bytes-per-rank 4GiB": "--bytes-per-rank 1MiB --repetitions 1",
        "--engine direct,torch-save --writers 1,2,4,8": "--engine direct --writers 1,2,4",
        "--ranks 4": "--ranks 2",
    }
    assert all(large in " ".join(lines) for large in less)
    (tmp_path / "checkpoints").mkdir()
    for line in lines:
        script = script_of(f"cd {tmp_path}", line)
        for large, small in less.items():
            script = script.replace(large, small)
        found = shell(script)
        assert found.returncode == 0, (line, found.stdout[-2000:], found.stderr)
    for name in ("scan.json", "scan.html", "calibration.json", "calibration.html"):
        assert (tmp_path / name).stat().st_size > 0, name
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_links_between_documents_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!http)([^)#\n]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_a_measured_disk_feeds_the_answer(tmp_path: Path) -> None:
    arguments = ["--target", str(tmp_path), "--bytes-per-rank", "16MiB", "--repetitions", "1"]
    result = tmp_path / "result.json"
    command = [sys.executable, "-c", PROGRAMS["ckpt-bench"], "run", *arguments, "--output", str(result)]
    subprocess.run(command, capture_output=True, timeout=SECONDS_UNTIL_STUCK, check=True)
    rates = {m["operation"]: m["bytes_per_second"] for m in json.loads(result.read_text())["measurements"]}
    flags = ["--model", "gpt2", "--format", "megatron", "--storage", str(result), "--json"]
    found = subprocess.run(
        [sys.executable, "-c", PROGRAMS["ckpt-size"], *flags],
        capture_output=True,
        text=True,
        timeout=SECONDS_UNTIL_STUCK,
        check=True,
    )
    report = json.loads(found.stdout)
    assert report["write"]["bytes_per_second"] == pytest.approx(rates["write"])
    assert report["restore"]["bytes_per_second"] == pytest.approx(rates["restore"])
