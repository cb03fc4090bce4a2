"""What a command line loads: what it needs for what was typed, and no more."""

import subprocess
import sys

import pytest

from tests.testbed.processes import SECONDS_UNTIL_STUCK

OTHER_PROGRAMS = ("torch", "scipy", "io_bench", "service")


def modules_loaded_by(*words: str) -> set[str]:
    """The modules that `ckpt-size` has imported once it has done what the words ask."""
    code = (
        f"import sys; sys.argv = ['ckpt-size', *{words!r}]\n"
        "from sizing.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as done: assert not done.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS_UNTIL_STUCK, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("module", [*OTHER_PROGRAMS, "numpy", "yaml", "sizing.scenario", "sizing.present.rows"])
def test_the_help_of_the_program_computes_nothing(help_of_program: set[str], module: str) -> None:
    assert module not in help_of_program


@pytest.fixture(scope="module")
def help_of_program() -> set[str]:
    return modules_loaded_by("--help")


@pytest.mark.parametrize(
    "module",
    [
        *OTHER_PROGRAMS,
        "sizing.config_files",  # importers of config files
        "sizing.checkpoint_files.contents",  # readers of checkpoints
        "sizing.validation",
        "sizing.present.catalog_entries",
        "sizing.questions.sweep",
        "sizing.questions.decide",
    ],
)
def test_an_answer_from_flags_reads_no_files_and_asks_no_other_question(answer: set[str], module: str) -> None:
    assert module not in answer


@pytest.fixture(scope="module")
def answer() -> set[str]:
    return modules_loaded_by("answer", "--model", "gpt2", "--data", "8", "--write-bandwidth", "10GB/s")
