"""Draws 500 mutants of `sizing` and counts which ones the tests kill: python -m tests.mutation [MUTANT ...]."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code

from tests.mutation.sample import sample_of

SEED = 11
NUM_MUTANTS = 500
NEEDED_FRACTION = 0.95
NUM_PROCESSES = 2
KILLED = ("killed", "timeout", "segfault")
"""A mutant that never ends, or takes the interpreter down, would be noticed too."""


def main(names: list[str]) -> int:
    """The exit status: 0 where enough mutants were killed."""
    names = names or sample_of(Path("sizing"), num_mutants=NUM_MUTANTS, seed=SEED)
    subprocess.run(["mutmut", "run", "--max-children", str(NUM_PROCESSES), *names], check=True)
    found = {name: status for name, status in _statuses().items() if name in set(names)}
    for name, status in sorted(found.items()):
        if status not in KILLED:
            print(f"\n{status}: {name}\n{get_diff_for_mutant(name)}")
    num_killed = sum(status in KILLED for status in found.values())
    print(
        f"\n{num_killed} of {len(found)} mutants killed ({num_killed / len(found):.1%}):", dict(Counter(found.values()))
    )
    return 0 if num_killed >= NEEDED_FRACTION * len(found) else 1


def _statuses() -> dict[str, str]:
    """What became of each mutant that was tried, by name."""
    exit_codes = [json.loads(path.read_text())["exit_code_by_key"] for path in Path("mutants").rglob("*.meta")]
    return {name: status_by_exit_code[code] for codes in exit_codes for name, code in codes.items() if code is not None}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
