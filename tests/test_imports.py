"""The import contracts refuse what they forbid: shown on a copy of the code with such imports added."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.processes import SECONDS_UNTIL_STUCK

ROOT = Path(__file__).parents[1]
PACKAGES = ("sizing", "service_client", "io_bench", "service")

NOT_ARITHMETIC = (
    *("socket", "ssl", "http", "urllib", "requests", "httpx", "asyncio"),  # network
    *("time", "sched"),  # clock
    *("sqlite3", "sqlalchemy", "psycopg", "alembic"),  # database
    *("fastapi", "starlette", "uvicorn", "jinja2"),  # web
    *("subprocess", "multiprocessing", "threading", "signal"),  # processes
    *("torch", "psutil"),  # the machine, which io_bench alone sees
)
OF_THE_EDGE = ("os", "sys", "pathlib")
"""What reads the user's files: for the command line and for checkpoints to inspect, not for the calculation."""

FORBIDDEN = (
    *(("sizing.units", imported) for imported in NOT_ARITHMETIC),
    *(("sizing.storage.profile", imported) for imported in OF_THE_EDGE),
    ("sizing.model.inventory", "sizing.charts"),
    ("sizing.explore.sweeps.front", "sizing.explore.layouts.search"),
    ("service.settings", "torch"),
    ("service.app", "io_bench.errors"),
    ("io_bench.errors", "service.errors"),
    ("service_client.documents", "service.errors"),
    ("service.errors", "service.settings"),
    ("service.http.accept", "service.routes.runs"),
    ("service.database.names", "service.http.problems"),
    ("service.middleware.head", "service.routes.health"),
    ("io_bench.payload.device", "io_bench.campaign.run"),
    ("io_bench.cleaning.leftovers", "io_bench.preflight.probe"),
    ("io_bench.target.directory.mount", "io_bench.target.object_store.store"),
    ("io_bench.target.transfer", "io_bench.target.lifecycle.heartbeat"),
)
CIRCLES = (("service.compute.worker", "service.compute.pool"), ("io_bench.engines.dcp", "io_bench.engines.async_dcp"))
"""Imports inside a room that turn the one that stands there into a circle."""

UNLISTED = (
    "sizing.unlisted",
    "sizing.run.unlisted",
    "io_bench.unlisted",
    "io_bench.target.unlisted",
    "service.unlisted",
)
"""Modules that no contract names."""


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says of a copy of the code with all of these added."""
    copy = tmp_path_factory.mktemp("copy")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for module in UNLISTED:
        path_in(copy, module).touch()
    for module, imported in (*FORBIDDEN, *CIRCLES):
        with path_in(copy, module).open("a") as file:
            file.write(f"\nimport {imported}\n")
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--no-cache"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy), "COLUMNS": "500"},
        capture_output=True,
        text=True,
        timeout=SECONDS_UNTIL_STUCK,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def path_in(folder: Path, module: str) -> Path:
    return folder.joinpath(*module.split(".")).with_suffix(".py")


@pytest.mark.parametrize(("module", "imported"), FORBIDDEN)
def test_a_forbidden_import_is_refused(verdict: str, module: str, imported: str) -> None:
    assert re.search(rf"^\W+{re.escape(module)} -> {re.escape(imported)} ", verdict, re.MULTILINE)


@pytest.mark.parametrize(("module", "imported"), CIRCLES)
def test_a_circle_is_refused(verdict: str, module: str, imported: str) -> None:
    one, other = (name.rpartition(".")[2] for name in (module, imported))
    assert re.search(rf"^- \.({one} -> \.{other}|{other} -> \.{one}) ", verdict, re.MULTILINE)


@pytest.mark.parametrize("module", UNLISTED)
def test_a_room_that_no_contract_lists_is_refused(verdict: str, module: str) -> None:
    assert re.search(rf"^- {re.escape(module)}$", verdict, re.MULTILINE)
