"""Names the tests that failed, for `scripts/test`, which runs them once more: a line each in the file FAILED_TESTS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_FILE = os.environ.pop("FAILED_TESTS", None)
"""Taken out of the environment: tests that run pytest themselves have failures of their own."""

_crashed = pytest.StashKey[bool]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write each test that failed, in any of its phases, with the first line of its error."""
    if _FILE is None:
        return
    errors: dict[str, str] = {}
    for report in (*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")):
        errors.setdefault(report.nodeid, _first_line(report))
    Path(_FILE).write_text("".join(f"{test}: {error}\n" for test, error in errors.items()))


def _first_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return (crash.message if crash else str(report.longrepr)).strip().partition("\n")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Note that one of several processes crashed: what it had still to run has not run."""
    if error is not None:
        node.config.stash[_crashed] = True  # type: ignore[attr-defined]  # xdist's WorkerController


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End as a run that was interrupted where tests were left out: running the failed ones once more proves nothing."""
    if session.config.stash.get(_crashed, False):
        session.exitstatus = pytest.ExitCode.INTERRUPTED
