"""The Dockerfile's install steps, in clean virtual environments."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.processes import SECONDS_UNTIL_STUCK

ROOT = Path(__file__).parents[2]
TARGETS = dict(
    re.findall(
        r"^FROM base AS (\w+)\nRUN pip install --no-cache-dir (.*?)(?: \\)?$",
        (ROOT / "Dockerfile").read_text(),
        re.MULTILINE,
    )
)


def installed(target: str, folder: Path) -> Path:
    """The folder of programs after the image's pip install."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = f"{folder}/bin/pip install --quiet --disable-pip-version-check {TARGETS[target]}"
    subprocess.run(["bash", "-c", command], cwd=ROOT, check=True, timeout=1200)
    return folder / "bin"


@pytest.mark.long
def test_the_service_image_serves_without_torch(tmp_path: Path) -> None:
    programs = installed("service", tmp_path / "venv")
    without = subprocess.run([programs / "python", "-c", "import torch"], capture_output=True, check=False)
    assert without.returncode == 1
    for program in ("ckpt-serve", "ckpt-size"):
        subprocess.run(
            [programs / program, "--help"], cwd=tmp_path, capture_output=True, check=True, timeout=SECONDS_UNTIL_STUCK
        )
    database = f"sqlite:///{tmp_path}/sizing.sqlite3"
    create: list[str | Path] = [programs / "ckpt-serve", "token", "create", "--name", "a", "--database-url", database]
    made = subprocess.run(create, cwd=tmp_path, capture_output=True, check=True)
    assert len(made.stdout.strip()) > 30


@pytest.mark.long
def test_the_agent_image_measures(tmp_path: Path) -> None:
    programs = installed("agent", tmp_path / "venv")
    run: list[str | Path] = [
        programs / "ckpt-bench",
        "run",
        "--target",
        tmp_path,
        "--bytes-per-rank",
        "1MiB",
        "--repetitions",
        "1",
    ]
    subprocess.run(run, cwd=tmp_path, capture_output=True, check=True, timeout=SECONDS_UNTIL_STUCK)


def test_the_service_is_the_default_image_and_runs_as_nobody_special() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert set(TARGETS) == {"service", "agent"}
    assert text.rindex("AS service") > text.rindex("AS agent")
    assert text.count("\nUSER 10001") == 2
    assert "HEALTHCHECK" in text
