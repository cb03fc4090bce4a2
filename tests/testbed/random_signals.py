"""Signals at random moments of `ckpt-bench run`, over engines and launchers: how each run ends, and what it leaves.

    scripts/random-signals --signals 1000 --seed 1

prints a line for each run that did not end as it should, and the counts of all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import psutil

from io_bench.engines import HOST_ENGINES
from io_bench.target.places import MANIFEST
from tests.testbed.processes import SECONDS_TO_END, NotReady, wait_until

ROOT = Path(__file__).parents[2]
LAUNCHERS = ("plain", "ranks", "torchrun")
ENDLESS = ("--bytes-per-rank", "8MiB", "--repetitions", "5000")
"""So many repetitions that a run lasts until it is stopped."""
MAX_STARTING_SECONDS = 4.0
"""In which a process imports, its ranks meet, and the first repetition begins, on an idle machine."""
MAX_WRITING_SECONDS = 1.0
"""Some repetitions of a payload as small as this."""
SECONDS_UNTIL_GIVEN_UP = 120.0
"""For a run to end: longer than ranks wait for each other's leaving, and than a launcher before it kills."""
_COLLAPSE = re.compile(r"SystemError|Fatal Python|terminate called|Segmentation|SIGABRT|SIGSEGV|exitcode *: -(6|11)\b")
_OF_A_RANK = re.compile(r"SystemError|exitcode *: -(6|11)\b|^Extension modules: .*psutil", re.MULTILINE)
"""What of these is of a rank and not of torchrun, which has no psutil and may abort as it ends by itself."""
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Shot:
    """One run and the signal that ends it, `seconds` after its start, or after its first file where `is_writing`.

    The launcher gets it alone, or all its processes as from a terminal where `is_to_group`.
    """

    engine: str
    launcher: str
    signum: signal.Signals
    is_writing: bool
    seconds: float
    is_to_group: bool = False

    @classmethod
    def drawn(cls, generator: random.Random) -> Shot:
        """One at random."""
        is_writing = generator.random() < 0.6
        longest = MAX_WRITING_SECONDS if is_writing else MAX_STARTING_SECONDS
        return cls(
            engine=generator.choice(HOST_ENGINES),
            launcher=generator.choice(LAUNCHERS),
            signum=generator.choice((signal.SIGINT, signal.SIGTERM)),
            is_writing=is_writing,
            seconds=generator.uniform(0, longest),
            is_to_group=generator.random() < 0.5,
        )

    def command(self, target: Path) -> list[str]:
        """The command line of the run."""
        arguments = ["run", "--target", str(target), "--engine", self.engine, *ENDLESS, "--output", "result.json"]
        module = ["-m", "io_bench", *arguments]
        torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
        match self.launcher:
            case "torchrun":
                return [sys.executable, *torchrun, *module]
            case "ranks":
                return [sys.executable, *module, "--ranks", "2"]
            case _:
                return [sys.executable, *module]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its exit code, what it said, files and processes that it left, and seconds that it took to end.

    `was_ready`: its own first line had run when the signal was sent. Before, the signal is Python's, or the kernel's.
    """

    shot: Shot
    exit_code: int
    said: str
    left: tuple[str, ...]
    was_ready: bool
    seconds: float

    @property
    def lines(self) -> list[str]:
        """The lines that say what went wrong."""
        return [line for line in self.said.splitlines() if line.startswith("error: ")]

    def judged(self) -> Iterator[str]:
        """What is wrong with it, if anything."""
        shot = self.shot
        if self.left and (self.was_ready or shot.launcher != "torchrun"):  # which may lose a signal while it imports
            yield f"left {', '.join(self.left)}"
        collapse = _OF_A_RANK if shot.launcher == "torchrun" else _COLLAPSE
        if self.was_ready and (found := collapse.search(self.said)):
            yield f"collapsed: {found[0][:40]}"
        if shot.launcher == "torchrun":  # which ends with codes and a stack of its own, and may end ranks unheard
            if self.was_ready and self.exit_code == 0:
                yield "exit code 0"
            if self.was_ready and len(self.lines) > 1:
                yield f"{len(self.lines)} lines"
            return
        if not self.was_ready:
            return
        if self.exit_code != 128 + shot.signum:
            yield f"exit code {self.exit_code}"
        if len(self.lines) != 1:
            yield f"{len(self.lines)} lines"
        if _TRACEBACK in self.said:
            yield "a stack trace"


def fired(shot: Shot, directory: Path) -> Outcome:
    """Run it in a new directory, send the signal, and see how it ends."""
    target, working = directory / "target", directory / "working"
    for each in (target, working):
        each.mkdir(parents=True)
    process = subprocess.Popen(
        shot.command(target),
        cwd=working,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    was_ready, sent, said = True, time.monotonic(), ""
    try:
        if shot.is_writing:
            wait_until(
                lambda: any(path.name != MANIFEST for path in target.glob("ckpt-bench-*/*")),
                process,
                last_words=lambda: f"it ended too early: {process.communicate()[0]}",
            )
        time.sleep(shot.seconds)  # a moment that was drawn, whatever the run is at: what this tool is for
        was_ready, sent = catches(process.pid, signal.SIGTERM), time.monotonic()
        if shot.is_to_group:
            os.killpg(process.pid, shot.signum)
        else:
            process.send_signal(shot.signum)
        said, _ = process.communicate(timeout=SECONDS_UNTIL_GIVEN_UP)
        seconds = time.monotonic() - sent
        left = [f"process {each.pid}" for each in _of_run(target)]
    except (subprocess.TimeoutExpired, NotReady) as error:
        seconds, left = time.monotonic() - sent, [f"processes: {error}"]
        for running in _of_run(target):
            running.send_signal(signal.SIGABRT)  # faulthandler says where it stands
        _, alive = psutil.wait_procs(list(_of_run(target)), timeout=SECONDS_TO_END)
        for running in alive:
            running.kill()
        said = process.communicate()[0]
    left += [str(path.relative_to(directory)) for each in (target, working) for path in each.rglob("*")]
    return Outcome(shot, process.returncode, said, tuple(left), was_ready, seconds)


def catches(pid: int, signum: signal.Signals) -> bool:
    """Whether a process has a handler of its own for a signal. Python has none for SIGTERM."""
    caught = Path(f"/proc/{pid}/status").read_text().split("SigCgt:")[1].split()[0]
    return bool(int(caught, 16) >> (signum - 1) & 1)


def _of_run(target: Path) -> Iterator[psutil.Process]:
    """The processes whose command line names a target: launcher and ranks, in whatever session."""
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if str(target) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def show(counts: Counter[str], slowest: float) -> None:
    """Print how many ended in which way so far."""
    for name, count in sorted(counts.items()):
        print(f"{count:6,} {name}")
    print(f"{slowest:6.1f} s from a signal to the end, at most", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fire as many as asked for, some at once; exit code 1 where any run ended otherwise than it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--signals", type=int, default=1000, help="how many runs to end (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of engines, launchers, signals and moments (default: 0)")
    parser.add_argument("--at-once", type=int, default=2, help="runs at the same time (default: 2)")
    parser.add_argument("--max-minutes", type=float, default=float("inf"), help="begin no run after so long")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a shell runs would ignore it
    generator, deadline = random.Random(options.seed), time.monotonic() + 60 * options.max_minutes  # noqa: S311 - no secret
    shots = [Shot.drawn(generator) for _ in range(options.signals)]
    counts: Counter[str] = Counter()
    slowest = 0.0

    def fire(shot: Shot) -> Outcome | None:
        if time.monotonic() > deadline:
            return None
        directory = Path(tempfile.mkdtemp(prefix="ckpt-bench-signals-"))
        try:
            return fired(shot, directory)
        finally:
            shutil.rmtree(directory)

    with ThreadPoolExecutor(options.at_once) as pool:
        for ended in as_completed([pool.submit(fire, shot) for shot in shots]):
            outcome = ended.result()
            if outcome is None:
                continue
            faults = list(outcome.judged())
            moment = "before its first line" if not outcome.was_ready else "later"
            counts[f"{outcome.shot.launcher}, {outcome.shot.signum.name}, {moment}: exit code {outcome.exit_code}"] += 1
            counts["all"] += 1
            counts["not as they should"] += bool(faults)
            slowest = max(slowest, outcome.seconds)
            if faults:
                begin, rest = outcome.said[:4000], outcome.said[4000:]  # what broke, and where processes stood at last
                print(f"{outcome.shot}: {'; '.join(faults)}\n{begin}\n...\n{rest[-8000:]}", flush=True)
            if counts["all"] % 25 == 0:
                show(counts, slowest)
    show(counts, slowest)
    return int(bool(counts["not as they should"]))


if __name__ == "__main__":
    sys.exit(main())
