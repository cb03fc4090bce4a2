"""Which tests reach which functions, and how long they take."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.mutation.forks import Work, forked
from tests.mutation.sample import Function
from tests.mutation.swap import forget_cached_results, mark

NO_LIMIT_SECONDS = 10**6


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of a test: its CPU seconds, whether it passes, and the keys of the functions that it reaches."""

    seconds: float
    passes: bool
    functions: tuple[str, ...]


def reach_of(
    session: pytest.Session, functions: Collection[Function], path: Path, *, num_processes: int
) -> dict[str, Reach]:
    """What each collected test reaches: as the file says, where its test has not changed since, or measured now."""
    keys = {function.key for function in functions}
    known = _read(path, session, keys)
    files = sorted({item.path for item in session.items if item.nodeid not in known})
    shares = [
        _Share(
            session,
            [
                item
                for item in session.items
                if item.path in set(files[place::num_processes]) and item.nodeid not in known
            ],
            functions,
            path.with_suffix(f".{place}"),
        )
        for place in range(num_processes)
    ]
    for _ in forked([Work(share.measure, NO_LIMIT_SECONDS) for share in shares], num_processes=num_processes):
        pass
    for share in shares:
        known |= share.measured()
    if not path.exists() or keys >= set(json.loads(path.read_text())["functions"]):
        tests = {test: asdict(reach) for test, reach in known.items()}
        path.write_text(json.dumps({"functions": sorted(keys), "tests": tests}))
    return known


def run_one(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether the test passes."""
    num_failed = item.session.testsfailed
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    return item.session.testsfailed == num_failed


def in_turn(items: Sequence[pytest.Item]) -> Iterable[tuple[pytest.Item, pytest.Item | None]]:
    """Each test with the one that follows: pytest keeps the fixtures that they share."""
    return itertools.zip_longest(items, items[1:])


def _read(path: Path, session: pytest.Session, keys: set[str]) -> dict[str, Reach]:
    """What the file knows of the tests that have not changed since, if it knows all the functions."""
    if not path.exists():
        return {}
    found = json.loads(path.read_text())
    if not keys <= set(found["functions"]):
        return {}
    unchanged = {item.nodeid for item in session.items if item.path.stat().st_mtime < path.stat().st_mtime}
    return {test: Reach(**reach) for test, reach in found["tests"].items() if test in unchanged}


@dataclass(frozen=True, slots=True)
class _Share:
    """The tests that one process measures, and the file that it writes."""

    session: pytest.Session
    items: Sequence[pytest.Item]
    functions: Collection[Function]
    path: Path

    def measure(self) -> int:
        """Run each test and write what it reached. A result that a test of the same file has cached is not seen again."""
        reached: set[str] = set()
        mark(self.functions, reached.add)
        found, file = {}, None
        for item, following in in_turn(self.items):
            if item.path != file:
                forget_cached_results()
                file = item.path
            reached.clear()
            start = _cpu_seconds()
            passes = run_one(item, following)
            found[item.nodeid] = asdict(Reach(_cpu_seconds() - start, passes, tuple(sorted(reached))))
        self.path.write_text(json.dumps(found))
        return 0

    def measured(self) -> dict[str, Reach]:
        """What the process wrote."""
        found = json.loads(self.path.read_text())
        self.path.unlink()
        return {test: Reach(**reach) for test, reach in found.items()}


def _cpu_seconds() -> float:
    """Of this process and those it has waited for."""
    return sum(os.times()[:4])
