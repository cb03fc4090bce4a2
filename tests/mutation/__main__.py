"""Draws 500 mutants of `sizing` and counts which ones types and tests kill.

python -m tests.mutation [--tests-alone] [MUTANT ...]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.sample import mutants_named, sample_of
from tests.mutation.trials import KILLED, Trials
from tests.mutation.type_check import refused_by_types

SEED = 11
NUM_MUTANTS = 500
NEEDED_FRACTION = 0.95
NUM_PROCESSES = 2
MAX_SECONDS = 20.0
"""Of CPU time for the tests of one mutant: a function that all tests reach would take minutes to survive."""
TESTS = (
    *("tests/sizing", "sizing", "-m", "not long and not benchmark"),
    "--ignore=tests/sizing/layout/test_format_types.py",  # types, which no mutant changes
)
OPTIONS = (
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is imported before pytest begins
    *("-q", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-p", "no:unraisableexception", "-p", "no:threadexception"),  # they collect garbage after every mutant
)
FOLDER = Path("mutants")
REFUSED = "refused by types"
TESTS_ALONE = "--tests-alone"
"""What types refuse is tried by tests as well, to see what these would notice by themselves."""


def main(arguments: list[str]) -> int:
    """The exit status: 0 where enough mutants were noticed."""
    names = [argument for argument in arguments if argument != TESTS_ALONE]
    FOLDER.mkdir(exist_ok=True)
    folder = Path("sizing")
    mutants = mutants_named(folder, names) if names else sample_of(folder, num_mutants=NUM_MUTANTS, seed=SEED)
    refused = set() if TESTS_ALONE in arguments else refused_by_types(mutants, FOLDER)
    trials = Trials([one for one in mutants if one.name not in refused], FOLDER, NUM_PROCESSES, MAX_SECONDS)
    status = pytest.main([*TESTS, *OPTIONS], plugins=[trials])
    if status != pytest.ExitCode.OK:
        return int(status)
    _print(trials)
    counts = Counter(trials.verdicts.values()) + Counter({REFUSED: len(refused)})
    print(f"\n{len(mutants)} mutants:", ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common()))
    return 0 if counts[REFUSED] + counts[KILLED] >= NEEDED_FRACTION * len(mutants) else 1


def _print(trials: Trials) -> None:
    """Each survivor with its change, and the tests that told nothing."""
    for mutant in trials.mutants:
        if trials.verdicts[mutant.name] != KILLED:
            print(f"\n{trials.verdicts[mutant.name]}: {mutant.name}\n{mutant.diff}")
    for test in trials.failing:
        print(f"\nnot used, as it fails without a mutant: {test}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
