"""A plugin of pytest that runs the collected tests against one mutant after the other, each in a fork of the process.

Tests are collected and modules imported once. A fork takes milliseconds, puts the mutant into the imported function, and
runs the tests that reach the function, the fastest first, until one fails.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import pytest

from tests.mutation.forks import Work, forked
from tests.mutation.reach import Reach, in_turn, reach_of, run_one
from tests.mutation.sample import Mutant
from tests.mutation.swap import forget_cached_results, put_in

KILLED = "killed"
"""By a failing test; a mutant that never ends or takes the interpreter down would be noticed too."""
SURVIVED = "survived"
NO_TEST = "reached by no test"
SLOWNESS = 10
"""A mutant may take this many times as long as the function does before it counts as one that never ends."""
MIN_LIMIT_SECONDS = 60


@dataclass(slots=True)
class Trials:
    """The plugin. `verdicts` holds what became of each mutant, by name, and `failing` the tests that fail without any."""

    mutants: Sequence[Mutant]
    folder: Path
    num_processes: int
    max_seconds: float
    verdicts: dict[str, str] = field(default_factory=dict)
    failing: list[str] = field(default_factory=list)

    def pytest_sessionstart(self) -> None:
        """A counterexample need not be the smallest one, and must not come from another mutant."""
        hypothesis.settings.register_profile(
            "mutants",
            hypothesis.settings.get_profile("untimed"),
            phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
            database=None,
            derandomize=True,
        )
        hypothesis.settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of running the tests once."""
        if session.testsfailed:
            raise session.Interrupted("some tests could not be collected")
        functions = {mutant.function.key: mutant.function for mutant in self.mutants}.values()
        reach = reach_of(session, functions, self.folder / "reach.json", num_processes=self.num_processes)
        self.failing = [item.nodeid for item in session.items if not reach[item.nodeid].passes]
        trials = sorted((_trial(session, mutant, reach, self.max_seconds) for mutant in self.mutants), key=_seconds)
        with (self.folder / "verdicts.jsonl").open("a", encoding="utf-8") as log:
            for place, status in forked([trial.work for trial in trials], num_processes=self.num_processes):
                trial = trials[place]
                verdict = trial.verdict(status)
                self.verdicts[trial.mutant.name] = verdict
                print(json.dumps({"name": trial.mutant.name, "verdict": verdict}), file=log, flush=True)
        return True


@dataclass(frozen=True, slots=True)
class _Trial:
    """A mutant and the tests to run against it."""

    mutant: Mutant
    items: Sequence[pytest.Item]
    seconds: float

    @property
    def work(self) -> Work:
        return Work(self.run, math.ceil(SLOWNESS * self.seconds + MIN_LIMIT_SECONDS))

    def run(self) -> int:
        """0 where all tests pass."""
        put_in(self.mutant.function, self.mutant.changed)
        forget_cached_results()
        return int(not all(run_one(item, following) for item, following in in_turn(self.items)))

    def verdict(self, status: int) -> str:
        if not self.items:
            return NO_TEST
        return KILLED if status else SURVIVED


def _trial(session: pytest.Session, mutant: Mutant, reach: dict[str, Reach], max_seconds: float) -> _Trial:
    """The tests to run, as many as fit into the time, and one at least.

    First those that reach the mutant, then the others of their files: they may look at what a fixture or a cache of the
    file holds since. Of each, the fastest first; tests of about the same speed keep their order, and so share fixtures.
    """
    key = mutant.function.key
    reaching = {item.nodeid for item in session.items if key in reach[item.nodeid].functions}
    files = {item.path for item in session.items if item.nodeid in reaching}
    able = [item for item in session.items if item.path in files and reach[item.nodeid].passes]
    able.sort(key=lambda item: (item.nodeid not in reaching, _magnitude(reach[item.nodeid].seconds)))
    seconds = list(itertools.accumulate(reach[item.nodeid].seconds for item in able))
    number = max(1, bisect.bisect_right(seconds, max_seconds))
    return _Trial(mutant, able[:number], seconds[min(number, len(able)) - 1] if able else 0.0)


def _magnitude(seconds: float) -> int:
    """Doublings above a twentieth of a second."""
    return max(0, math.ceil(math.log2(max(seconds, 0.01) * 20)))


def _seconds(trial: _Trial) -> float:
    return trial.seconds
