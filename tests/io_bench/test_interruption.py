"""A signal ends a run, whatever code it comes in: between steps, in waits, and by requests to files that fail."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from io_bench import interruption
from io_bench.commands.main import main
from io_bench.engines import HOST_ENGINES
from io_bench.interruption import Interrupted
from io_bench.target.request_log import RequestLog
from tests.testbed.processes import SECONDS_UNTIL_STUCK
from tests.testbed.random_signals import Shot, catches, fired

if TYPE_CHECKING:
    import subprocess

    from tests.io_bench.conftest import Bench, Tree

Until = Callable[[Callable[[], object], "subprocess.Popen[str]"], None]


def test_a_signal_is_noted_and_raised_only_where_the_run_asks() -> None:
    interruption.expect()
    interruption.heed()
    interruption.fail_requests()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.raise_signal(signum)
    assert interruption.has_come()
    with pytest.raises(InterruptedError):
        interruption.fail_requests()
    with contextlib.suppress(Interrupted):  # as a library does that tries something out
        interruption.heed()
    with pytest.raises(Interrupted, match="was interrupted by SIGTERM"):
        interruption.heed()
    interruption.expect()
    interruption.heed()


def test_a_signal_that_was_ignored_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interruption.expect()
    signal.raise_signal(signal.SIGHUP)
    assert not interruption.has_come()


def test_a_wait_ends_with_the_signal() -> None:
    interruption.expect()
    killer = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGTERM))
    killer.start()
    with pytest.raises(Interrupted, match="SIGTERM"):
        interruption.sleep(SECONDS_UNTIL_STUCK)
    killer.join()


def test_a_wait_of_another_thread_lets_no_signal_raise_in_this_one() -> None:
    interruption.expect()
    is_within, is_over = threading.Event(), threading.Event()

    def wait() -> None:
        with interruption.at_once():
            is_within.set()
            is_over.wait()

    other = threading.Thread(target=wait)
    other.start()
    is_within.wait()
    signal.raise_signal(signal.SIGINT)
    is_over.set()
    other.join()
    assert interruption.has_come()


def test_what_is_left_to_do_is_not_interrupted() -> None:
    interruption.expect()
    signal.raise_signal(signal.SIGTERM)
    interruption.ignore()
    interruption.heed()
    interruption.sleep(0.0)
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("engine", HOST_ENGINES)
@pytest.mark.parametrize("phase", ["write", "read"])
def test_a_signal_within_a_request_ends_a_run_with_one_line(
    engine: str,
    phase: str,
    target: Path,
    tmp_path: Path,
    tree: Callable[[Path], Tree],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Requests come from torch's C++, from threads, and from this thread: the signal strikes right after one of them."""
    before = tree(target)
    generator = random.Random(f"{engine} {phase}")  # noqa: S311 - no secret
    signum, left = generator.choice([signal.SIGINT, signal.SIGTERM]), [generator.randrange(1, 8)]
    moved = RequestLog.moved

    def struck(log: RequestLog, of_phase: str, *arguments: Any, **options: Any) -> None:
        moved(log, of_phase, *arguments, **options)
        left[0] -= of_phase == phase
        if left[0] == 0:
            os.kill(os.getpid(), signum)

    monkeypatch.setattr(RequestLog, "moved", struck)
    flags = ("--bytes-per-rank", "16MiB", "--repetitions", "50", "--output", str(tmp_path / "result.json"))
    with pytest.raises(SystemExit) as end:
        main(["run", "--target", str(target), "--engine", engine, *flags])
    said = capsys.readouterr().err
    assert end.value.code == 128 + signum, said
    assert re.findall("^error: .*", said, re.MULTILINE) == [f"error: Rank 0 was interrupted by {signum.name}."]
    assert "Traceback" not in said
    assert tree(target) == before
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_signal_while_libraries_are_imported_ends_the_program_with_one_line(
    signum: signal.Signals, bench: Bench, target: Path, until: Until
) -> None:
    process = bench.start(bench.command("run", "--target", str(target), "--repetitions", "5000"))

    until(lambda: catches(process.pid, signal.SIGTERM), process)
    process.send_signal(signum)
    done = bench.finish(process)
    assert done.returncode == 128 + signum
    assert re.fullmatch(rf"error: (The program|Rank 0) was interrupted by {signum.name}\.\n", done.stderr)
    assert [path.name for path in target.iterdir()] == ["not-ours.bin"]


@pytest.mark.parametrize("launcher", ["ranks", pytest.param("torchrun", marks=pytest.mark.long)])
@pytest.mark.parametrize("signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_a_signal_after_the_first_file_leaves_nothing(launcher: str, signum: signal.Signals, tmp_path: Path) -> None:
    engine = random.Random(f"{launcher} {signum}").choice(HOST_ENGINES)  # noqa: S311 - no secret
    shot = Shot(engine, launcher, signum, is_writing=True, seconds=0.0, is_to_group=signum == signal.SIGINT)
    outcome = fired(shot, tmp_path)
    assert list(outcome.judged()) == [], outcome.said


@pytest.mark.exhaustive(minutes=2)
def test_signals_at_random_moments_leave_nothing(tmp_path: Path) -> None:
    generator = random.Random(20)  # noqa: S311 - no secret
    for number in range(30):
        outcome = fired(Shot.drawn(generator), tmp_path / str(number))
        assert list(outcome.judged()) == [], f"{outcome.shot}: {outcome.said}"
