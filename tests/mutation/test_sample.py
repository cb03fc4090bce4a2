"""The sample of mutants is the same each time, has some of every module and no mere wording."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutmut.mutation.file_mutation import mutate_file_contents

from tests.mutation.sample import sample_of

ROOM = Path("sizing/state")
ALL = 10**6


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


def test_the_same_seed_draws_the_same_mutants_and_another_one_others() -> None:
    drawn = sample_of(ROOM, num_mutants=10, seed=1)
    assert drawn == sample_of(ROOM, num_mutants=10, seed=1)
    assert drawn != sample_of(ROOM, num_mutants=10, seed=2)
    assert len(set(drawn)) == 10


def test_a_small_sample_has_a_mutant_of_every_module() -> None:
    modules = {name.rpartition(".")[0] for name in sample_of(ROOM, num_mutants=ALL, seed=1)}
    few = sample_of(ROOM, num_mutants=len(modules), seed=1)
    assert {name.rpartition(".")[0] for name in few} == modules


def test_what_is_drawn_are_mutmuts_mutants_without_those_of_sentences() -> None:
    path = ROOM / "saved_state.py"
    known = {
        f"sizing.state.saved_state.{name}" for name in mutate_file_contents(str(path), path.read_text()).mutant_names
    }
    drawn = {name for name in sample_of(ROOM, num_mutants=ALL, seed=1) if ".saved_state." in name}
    assert drawn < known
