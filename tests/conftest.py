"""The test bed as fixtures, and how hypothesis runs. What this machine cannot run is skipped; in CI that is a failure."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

import hypothesis
import hypothesis.internal.conjecture.engine
import pytest

from tests.examples import FEWER
from tests.testbed.file_systems import disk
from tests.testbed.processes import Unavailable, need, need_root

_Part = TypeVar("_Part")

# An example may take as long as a busy machine makes it, and so may making one up. The default run draws the same
# examples each time. `make test-exhaustive` loads "fresh" and draws new ones, with CI=true too, where Hypothesis would repeat
# its own; what fails there prints a line `@reproduce_failure(...)`, which put above the test repeats it.
hypothesis.settings.register_profile(
    "fresh", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], print_blob=True, derandomize=False
)
_fresh = hypothesis.settings.get_profile("fresh")
hypothesis.settings.register_profile("repeatable", _fresh, derandomize=True, max_examples=_fresh.max_examples // FEWER)
hypothesis.settings.load_profile("repeatable")
# A counterexample that is not the smallest is worth more than five minutes of a run that has failed already.
hypothesis.internal.conjecture.engine.MAX_SHRINKING_SECONDS = 20


# What collecting makes stays: looking through it for garbage, again and again, took an eighth of the time.
gc.disable()

# Tables are as wide as without a terminal, however wide the one is in which the tests run.
os.environ.pop("COLUMNS", None)

# Who starts the tests in the background of a shell has them ignore Ctrl-C, and all that they start would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes the most minutes begins first: no process of several is left alone with it at the end.

    Then the rooms in turn: tests that wait for ranks and servers run beside those that compute, and not before them.
    """
    turns = _turns(dict.fromkeys(item.path for item in items))
    items.sort(key=lambda item: (-_minutes(item), turns[item.path]))


def _turns(files: Iterable[Path]) -> dict[Path, tuple[float, int]]:
    """When the tests of each file have their turn, if those of each folder are spread evenly over all of the time."""
    rooms: dict[Path, list[Path]] = {}
    for file in files:
        rooms.setdefault(file.parent, []).append(file)
    return {
        file: ((place + 0.5) / len(room), number)
        for number, room in enumerate(rooms.values())
        for place, file in enumerate(room)
    }


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without a GPU, what is for one is skipped; in CI too, as a machine without one lacks no tool."""
    if item.get_closest_marker("gpu"):
        import torch  # noqa: PLC0415 - a second, which only these tests need

        if not torch.cuda.is_available():
            pytest.skip("torch sees no GPU")


def pytest_collection_finish() -> None:
    """Leave what is imported by now out of the collections of garbage, which take half a second each with it."""
    gc.freeze()
    gc.enable()


def _minutes(item: pytest.Item) -> float:
    mark = item.get_closest_marker("exhaustive") or item.get_closest_marker("long")
    return float(mark.kwargs.get("minutes", 0)) if mark else 0.0


class Testbed(Protocol):
    """Enters a part of the test bed for the time of a test, or of all tests of a module."""

    def __call__(self, part: AbstractContextManager[_Part]) -> _Part: ...


@pytest.fixture
def testbed() -> Iterator[Testbed]:
    with contextlib.ExitStack() as stack:
        yield _entering(stack)


@pytest.fixture(scope="module")
def testbed_of_module() -> Iterator[Testbed]:
    with contextlib.ExitStack() as stack:
        yield _entering(stack)


@pytest.fixture
def mounting() -> None:
    """Whether file systems can be mounted here."""
    with _skipped_where_unavailable():
        need_root()
        need("mount", "umount", "unshare")


@pytest.fixture
def fio() -> None:
    """Whether the tool to compare with is here."""
    with _skipped_where_unavailable():
        need("fio")


@pytest.fixture
def strace() -> None:
    """Whether the tool by which the kernel answers with errors is here."""
    with _skipped_where_unavailable():
        need("strace")


@pytest.fixture
def small_filesystem(tmp_path: Path, testbed: Testbed) -> Path:
    """An ext4 file system of 64 MiB on a loop device, to be filled."""
    return testbed(disk(tmp_path, num_bytes=64 << 20)).path


def _entering(stack: contextlib.ExitStack) -> Testbed:
    def enter(part: AbstractContextManager[_Part]) -> _Part:
        with _skipped_where_unavailable():
            return stack.enter_context(part)

    return enter


@contextlib.contextmanager
def _skipped_where_unavailable() -> Iterator[None]:
    try:
        yield
    except Unavailable as reason:
        if os.environ.get("CI") == "true":
            pytest.fail(str(reason))
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Handlers of signals as they were: a run of the agent in this process ignores them at its end, as would all that
    is started after it.
    """
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)
