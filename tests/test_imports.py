"""The import contracts refuse what they forbid: shown on a copy of the code with such imports added."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.testbed.processes import SECONDS_UNTIL_STUCK

ROOT = Path(__file__).parents[1]
PACKAGES = ("sizing", "service_client", "io_bench", "mcp_server", "service")

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
REFUSALS = [contract for contract in CONTRACTS if contract["type"] == "forbidden"]
FOLDERS_OF_QUESTIONS, PROGRAMS, SILENT, ARITHMETIC, EDGE, SERVICE = REFUSALS
LINTED_IN = {
    "io_bench.host": PROGRAMS,
    "service.answers.quick": SILENT,
    "sizing.units.writing": ARITHMETIC,
    "sizing.storage.profile": EDGE,
    "service.settings": SERVICE,
}
"""A module under each of these contracts, which gets all imports that it forbids."""

NOT_ARITHMETIC = {
    "network": {"aiohttp", "asyncio", "botocore", "fsspec", "ftplib", "http", "httpx", "requests", "s3fs", "select"}
    | {"selectors", "smtplib", "socket", "socketserver", "ssl", "urllib", "urllib3", "xmlrpc"},
    "clock": {"sched", "time", "timeit"},
    "database": {"alembic", "dbm", "psycopg", "shelve", "sqlalchemy", "sqlite3"},
    "web": {"fastapi", "jinja2", "prometheus_client", "starlette", "uvicorn", "weasyprint", "wsgiref"},
    "processes": {"concurrent", "fcntl", "mmap", "multiprocessing", "psutil", "pty", "resource", "signal", "subprocess"}
    | {"threading"},
    "frameworks": {"safetensors", "torch", "transformers"},
}
"""What no contract may take from its list."""
FILES_OF_THE_USER = {"glob", "io", "os", "pathlib", "shutil", "sys", "tempfile", "zipfile"}
EDGE_ROOMS = {"checkpoint_files", "cli", "loading", "terminal"}
"""Rooms of sizing that may read them; `loading` has no files, and counts the modules of `sys`."""

FORBIDDEN = (
    *((module, imported) for module, contract in LINTED_IN.items() for imported in contract["forbidden_modules"]),
    ("sizing.model.inventory", "sizing.present.chart"),
    ("sizing.questions.sweep.table", "sizing.questions.layouts.search"),
    ("sizing.cli.questions", "sizing.questions.sweep.answer"),
    ("service.routes.questions", "sizing.questions.decide.request"),
    ("service.app", "io_bench.errors"),
    ("io_bench.errors", "service.errors"),
    ("service_client.documents", "service.errors"),
    ("service.errors", "service.settings"),
    ("service.http.accept", "service.routes.runs"),
    ("service.database.names", "service.http.problems"),
    ("service.middleware.responses", "service.routes.health"),
    ("io_bench.payload.device", "io_bench.commands.run"),
    ("io_bench.target.places", "io_bench.checks.preflight_checks"),
    ("io_bench.target.directory", "io_bench.target.object_store.store"),
    ("io_bench.target.target", "io_bench.target.places"),
)
CIRCLES = (("service.compute.worker", "service.compute.pool"), ("io_bench.engines.dcp_streams", "io_bench.engines.dcp"))
"""Imports inside a room that turn the one that stands there into a circle."""

EXHAUSTIVE = {"sizing", "sizing.layout", "sizing.run", "io_bench", "io_bench.target", "service"}
UNLISTED = sorted(f"{container}.unlisted" for container in EXHAUSTIVE)
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


def test_the_folders_of_questions_are_kept_from_all_programs_and_from_each_other() -> None:
    assert set(PACKAGES) - {"sizing"} <= set(FOLDERS_OF_QUESTIONS["source_modules"])
    assert {"sizing.*", "sizing.questions.*"} <= set(FOLDERS_OF_QUESTIONS["source_modules"])
    assert FOLDERS_OF_QUESTIONS["forbidden_modules"] == ["sizing.questions.*.*"]


@pytest.mark.parametrize("kind", NOT_ARITHMETIC)
def test_no_kind_of_module_leaves_the_list_of_what_is_not_arithmetic(kind: str) -> None:
    assert ARITHMETIC["source_modules"] == ["sizing"]
    assert NOT_ARITHMETIC[kind] <= set(ARITHMETIC["forbidden_modules"])


def test_all_rooms_of_sizing_but_the_edge_are_kept_from_the_files_of_the_user() -> None:
    rooms = {path.stem for path in (ROOT / "sizing").iterdir() if path.suffix == ".py" or path.is_dir()}
    rooms -= EDGE_ROOMS | {"__init__", "__pycache__"}
    assert {f"sizing.{room}" for room in rooms} <= set(EDGE["source_modules"])
    assert set(EDGE["forbidden_modules"]) >= FILES_OF_THE_USER


def test_the_service_and_its_client_are_kept_from_torch_and_the_machine() -> None:
    assert set(SERVICE["source_modules"]) == {"service", "service_client"}
    assert set(SERVICE["forbidden_modules"]) >= {"psutil", "safetensors", "torch", "transformers"}


def test_no_other_program_is_let_to_the_command_line_of_sizing() -> None:
    assert set(PROGRAMS["source_modules"]) == {"io_bench", "mcp_server", "service", "service_client"}
    assert PROGRAMS["forbidden_modules"] == ["sizing.cli"]


def test_processes_beside_a_program_are_kept_from_its_terminal() -> None:
    assert {"service.compute", "io_bench.ranks"} <= set(SILENT["source_modules"])
    assert "sizing.terminal" in SILENT["forbidden_modules"]


@pytest.mark.parametrize(("module", "imported"), CIRCLES)
def test_a_circle_is_refused(verdict: str, module: str, imported: str) -> None:
    one, other = (name.rpartition(".")[2] for name in (module, imported))
    assert re.search(rf"^- \.({one} -> \.{other}|{other} -> \.{one}) ", verdict, re.MULTILINE)


def test_every_exhaustive_container_has_an_unlisted_room_here() -> None:
    assert {
        name for contract in CONTRACTS if contract.get("exhaustive") for name in contract["containers"]
    } == EXHAUSTIVE


@pytest.mark.parametrize("module", UNLISTED)
def test_a_room_that_no_contract_lists_is_refused(verdict: str, module: str) -> None:
    assert re.search(rf"^- {re.escape(module)}$", verdict, re.MULTILINE)


@pytest.mark.parametrize("reading", ["datetime.datetime.now()", "datetime.datetime.utcnow()", "datetime.date.today()"])
def test_sizing_may_not_read_the_clock_and_the_agent_may(reading: str) -> None:
    source = f"import datetime\n\nMOMENT = {reading}\n"
    assert "TID251" in linted(source, "sizing/x.py")
    assert "TID251" not in linted(source, "io_bench/x.py")


def linted(source: str, name: str) -> str:
    """What ruff says of a text as a file of that name."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--stdin-filename", name, "-"]
    done = subprocess.run(command, input=source, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return done.stdout
