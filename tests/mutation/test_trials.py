"""A trial puts one mutant into what is imported, and the tests that reach it tell whether it lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = """
class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    @classmethod
    def doubling(cls, more: int = 0) -> "Scale":
        return cls(2 + more)

    def of(self, value: int) -> int:
        return self.factor * value


def larger(one: int, other: int) -> int:
    return one if one > other else other


def unseen(value: int) -> int:
    return value + 1
"""
TESTS = """
import functools
import pytest
from sizing.scale import Scale, larger


@functools.cache
def scaled():
    return Scale.doubling().of(3)


def test_scale():
    assert scaled() == 6
    assert Scale.doubling(1).of(3) == 9


def test_larger():
    assert larger(1, 2) == 2


def test_that_fails_by_itself():
    assert larger(1, 2) == 3


@pytest.mark.skip
def test_skipped():
    assert False
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run over all mutants of a small package prints."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "sizing").mkdir()
    (folder / "sizing" / "scale.py").write_text(CODE)
    (folder / "sizing" / "__init__.py").touch()
    (folder / "pyproject.toml").write_text('[tool.mutmut]\nsource_paths = ["sizing"]\n[tool.mypy]\nstrict = true\n')
    (folder / "test_scale.py").write_text(TESTS)
    (folder / "conftest.py").write_text("import hypothesis\nhypothesis.settings.register_profile('untimed')\n")
    code = (
        "import sys; from tests.mutation import __main__ as run; run.TESTS = ('test_scale.py',); sys.exit(run.main([]))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
    )
    assert found.returncode == 1, found.stderr
    return found.stdout


def test_what_a_test_notices_is_killed_even_behind_a_cache(said: str) -> None:
    for function in ("doubling", "of"):
        assert f"ǁ{function}__mutmut" not in said


def test_what_no_test_runs_or_notices_is_shown_with_its_change(said: str) -> None:
    assert "reached by no test: sizing.scale.x_unseen__mutmut_1\n-    return value + 1\n+    return value - 1\n" in said
    assert "survived: sizing.scale.x_larger__mutmut" in said
    assert "+    return one if one >= other else other\n" in said


def test_a_mutant_that_mypy_refuses_is_not_one_to_write_a_test_for(said: str) -> None:
    assert "self.factor = None" not in said
    assert "refused by types" in said.splitlines()[-1]


def test_tests_that_fail_without_a_mutant_are_named_and_not_used(said: str) -> None:
    assert "not used, as it fails without a mutant: test_scale.py::test_that_fails_by_itself\n" in said
