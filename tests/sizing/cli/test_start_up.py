"""What a command line loads: what it needs for what was typed, and no more."""

import functools
import subprocess
import sys
from importlib import resources

import pytest

from sizing.cli.questions import describe_verbs
from sizing.cli.verb_parameters import FILE_NAME, read_described
from sizing.questions.registry import QUESTIONS
from tests.testbed.processes import SECONDS_UNTIL_STUCK

OTHER_PROGRAMS = ("torch", "scipy", "io_bench", "service")
WHAT_COMPUTES = (*OTHER_PROGRAMS, "numpy", "yaml", "sizing.scenario", "sizing.present.rows", "sizing.checkpoint_files")


@functools.cache
def modules_loaded_by(words: str) -> set[str]:
    """The modules that `ckpt-size` has imported once it has done what the words ask."""
    code = (
        f"import sys; sys.argv = ['ckpt-size', *{words.split()!r}]\n"
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


@pytest.mark.parametrize("words", ["--help", "answer --help", "sweep --help-all", "compare --help", "validate --help"])
def test_help_loads_nothing_that_computes(words: str) -> None:
    loaded = modules_loaded_by(words)
    assert "sizing.cli.verbs" in loaded
    assert not loaded & set(WHAT_COMPUTES)


@pytest.mark.parametrize(
    "module",
    [
        *OTHER_PROGRAMS,
        "sizing.importers",  # of config files
        "sizing.checkpoint_files.contents",  # readers of checkpoints
        "sizing.storage.measurement",  # results of benchmarks
        "sizing.storage.calibration.prediction",
        "sizing.validation",
        "sizing.present.catalog_entries",
        "sizing.questions.sweep",
        "sizing.questions.decide",
    ],
)
def test_an_answer_from_flags_reads_no_files_and_asks_no_other_question(module: str) -> None:
    loaded = modules_loaded_by("answer --model gpt2 --data 8 --write-bandwidth 10GB/s")
    assert "sizing.scenario" in loaded
    assert module not in loaded


def test_help_says_what_the_questions_say() -> None:
    kept = resources.files("sizing.cli").joinpath(FILE_NAME).read_text(encoding="utf-8")
    written = describe_verbs().as_json()
    assert kept.strip() == written, f"{FILE_NAME} is not what the questions say: make generated"


def test_what_is_kept_is_read_as_it_was() -> None:
    assert read_described() == describe_verbs()
    assert set(read_described().verbs) == set(QUESTIONS)
