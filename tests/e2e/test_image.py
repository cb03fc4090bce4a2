"""The Dockerfile's install steps, in clean virtual environments, and the lists of what they install."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tests.testbed.processes import SECONDS_UNTIL_STUCK

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
TARGETS = ("service", "agent")
DECIDES_DEPENDENCIES = ["pyproject.toml", "constraints.txt", "LICENSE", "sizing/version.py"]
"""All that may be there when dependencies are installed: what else changes leaves their layers as they are."""
_DONE_HERE = ("pip ", "mkdir ")
"""How the commands begin that need no container."""


def steps(stage: str) -> Iterator[tuple[str, str]]:
    """The instructions of a stage, each with the rest of its line."""
    (body,) = re.findall(rf"^FROM \S+ AS {stage}\n(.*?)(?=^FROM |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    without_comments = re.sub(r"^#.*\n", "", body, flags=re.MULTILINE).replace("\\\n", " ")
    for line in filter(None, without_comments.splitlines()):
        instruction, _, rest = line.partition(" ")
        yield instruction, re.sub(" +", " ", rest)


def copied(stage: str) -> list[tuple[list[str], str]]:
    """What the instructions of a stage copy from here, and where to."""
    copies = [rest.split() for instruction, rest in steps(stage) if instruction == "COPY"]
    return [(words[:-1], words[-1]) for words in copies if not words[0].startswith("--from")]


def copy_into(folder: Path, sources: list[str], place: str) -> None:
    """Copy as COPY does: files into a folder that ends with a slash, or the content of a folder."""
    to = folder / place.lstrip("/")
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, to, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, to)


def built(target: str, folder: Path) -> Path:
    """The folder of programs after the image's steps, whose working directory is gone."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    programs, app = folder / "venv" / "bin", folder / "app"
    app.mkdir()
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    for instruction, rest in (*steps("base"), *steps(target)):
        if instruction == "COPY" and rest == "--from=code / ./":
            for sources, place in copied("code"):
                copy_into(app, sources, place)
        elif instruction == "COPY":
            *sources, place = rest.split()
            copy_into(app, sources, place)
        elif instruction == "ARG":
            name, _, value = rest.partition("=")
            environment[name] = value
        elif instruction == "RUN" and rest.startswith(_DONE_HERE):
            command = ["bash", "-c", rest]
            subprocess.run(command, cwd=app, env=environment, check=True, timeout=1200, stdout=subprocess.DEVNULL)
    shutil.rmtree(app)
    return programs


@pytest.fixture(scope="module")
def programs_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of programs of an image, built once."""
    found: dict[str, Path] = {}

    def of(target: str) -> Path:
        if target not in found:
            found[target] = built(target, tmp_path_factory.mktemp(target))
        return found[target]

    return of


@pytest.mark.long
def test_the_service_image_serves_without_torch(programs_of: Callable[[str], Path], tmp_path: Path) -> None:
    programs = programs_of("service")
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


@pytest.mark.exhaustive(minutes=2)
def test_the_agent_image_measures_with_torch_for_cpus(programs_of: Callable[[str], Path], tmp_path: Path) -> None:
    programs = programs_of("agent")
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
    cuda = subprocess.run(
        [programs / "python", "-c", "import torch; print(torch.version.cuda)"], capture_output=True, check=True
    )
    assert cuda.stdout.strip() == b"None"
    assert not [name for name in installed(programs) if name.startswith("nvidia-")]


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", TARGETS)
def test_all_that_an_image_installs_is_listed_with_its_licence(
    programs_of: Callable[[str], Path], tmp_path: Path, target: str
) -> None:
    programs = programs_of(target)
    subprocess.run([programs / "pip", "check"], capture_output=True, check=True)
    subprocess.run([ROOT / "scripts" / "sbom", target, tmp_path, programs / "python"], check=True)
    components = json.loads((tmp_path / f"{target}.cdx.json").read_text())["components"]
    assert {canonicalize_name(each["name"]): each["version"] for each in components} == installed(programs)
    with (tmp_path / f"{target}.licences.csv").open(newline="") as file:
        listed = list(csv.DictReader(file))
    assert {canonicalize_name(row["Name"]): row["Version"] for row in listed} == installed(programs)
    assert all(row["License"] not in ("", "UNKNOWN") for row in listed)


def installed(programs: Path) -> dict[str, str]:
    """The version of each distribution, as pip finds them."""
    said = subprocess.run([programs / "pip", "list", "--format", "json"], capture_output=True, check=True).stdout
    return {canonicalize_name(each["name"]): each["version"] for each in json.loads(said)}


@pytest.mark.parametrize("target", TARGETS)
def test_a_change_of_code_alone_leaves_the_layers_of_dependencies_as_they_are(target: str) -> None:
    assert [source for sources, _ in copied("base") for source in sources] == DECIDES_DEPENDENCIES
    instructions = [*steps("base"), *steps(target)]
    code = instructions.index(("COPY", "--from=code / ./"))
    before, after = instructions[:code], instructions[code + 1 :]
    assert any(re.search(r'"\.\[\S+\]"', rest) for _, rest in before), "dependencies come first"
    assert [rest for instruction, rest in after if instruction == "RUN"] == [
        "pip install --no-cache-dir --no-deps --force-reinstall --constraint constraints.txt ."
    ]
    assert {source for sources, _ in copied("code") for source in sources} == {"README.md", *packages()}


def packages() -> set[str]:
    """The folders that are installed."""
    (listed,) = re.findall(r"^packages = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return set(re.findall(r'"(\w+)"', listed))


def test_the_service_is_the_default_image_and_runs_as_nobody_special() -> None:
    assert tuple(re.findall(r"^FROM base AS (\w+)", TEXT, re.MULTILINE)) == ("agent", "service")
    assert TEXT.rindex("AS service") > TEXT.rindex("AS agent")
    assert TEXT.count("\nUSER 10001") == 2
    assert "HEALTHCHECK" in TEXT
