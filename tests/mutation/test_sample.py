"""The sample of mutants is the same each time, has some of every module and no mere wording."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutmut.mutation.file_mutation import mutate_file_contents

from tests.mutation.sample import mutants_named, sample_of

ROOM = Path("sizing/state")
ALL = 10**6


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


def names(num_mutants: int, *, seed: int = 1) -> list[str]:
    return [mutant.name for mutant in sample_of(ROOM, num_mutants=num_mutants, seed=seed)]


def test_the_same_seed_draws_the_same_mutants_and_another_one_others() -> None:
    drawn = names(10)
    assert drawn == names(10)
    assert drawn != names(10, seed=2)
    assert len(set(drawn)) == 10


def test_a_small_sample_has_a_mutant_of_every_module() -> None:
    modules = {name.rpartition(".")[0] for name in names(ALL)}
    assert {name.rpartition(".")[0] for name in names(len(modules))} == modules


def test_what_is_drawn_are_mutmuts_mutants_without_those_of_sentences() -> None:
    path = ROOM / "saved_state.py"
    known = {
        f"sizing.state.saved_state.{name}" for name in mutate_file_contents(str(path), path.read_text()).mutant_names
    }
    assert {name for name in names(ALL) if ".saved_state." in name} < known


def test_a_mutant_is_found_by_its_name_and_shows_its_change() -> None:
    some = sample_of(ROOM, num_mutants=5, seed=1)
    found = mutants_named(Path("sizing"), [mutant.name for mutant in some])
    assert [mutant.diff for mutant in found] == [mutant.diff for mutant in some]
    for mutant in found:
        assert {line[0] for line in mutant.diff.splitlines()} <= {"-", "+"}
