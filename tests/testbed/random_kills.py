"""Kills at random moments of jobs on two servers: how each job ends, and how many of its chunks were computed twice.

    scripts/random-kills --kills 100 --seed 1 [--dask]

prints a line for each kill, and the counts of all. Jobs of ten chunks are asked of two servers on one SQLite file, and
their computing processes and servers killed, stopped for a while, or told to end. With --dask two workers of a
scheduler compute the chunks, and these and the scheduler are killed too.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil

from sizing.questions.chunks import ignore_progress
from tests.service import conftest
from tests.service.steps import PROGRAM, QUESTION, StepsRequest, begun
from tests.service.test_jobs import as_if_later
from tests.testbed.dask import scheduler, workers
from tests.testbed.processes import SECONDS_UNTIL_STUCK, until

NUM_CHUNKS = 10
SECONDS_OF_A_CHUNK = 0.3
WAYS = ("process killed", "server killed", "server stopped", "server told to end")
WAYS_OF_DASK = (*WAYS, "worker killed", "scheduler killed")
BY_NAME = "failed by name"
"""Outcome of a job whose scheduler is gone: it says so."""


class Cluster:
    """A scheduler of Dask and two workers. They are started again where they ended, at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._stack = folder, ExitStack()
        self.start(port=0)

    def start(self, port: int) -> None:
        """Start all of them."""
        self._scheduler = self._stack.enter_context(scheduler(self._folder, port=port))
        self._stack.enter_context(workers(self._folder))

    @property
    def address(self) -> str:
        """Where the scheduler listens."""
        return self._scheduler.address

    def kill_scheduler(self) -> None:
        """Kill the scheduler, and start another at its address, with workers of its own."""
        os.kill(self._scheduler.pid, signal.SIGKILL)
        self._stack.close()
        self.start(port=int(self.address.rpartition(":")[2]))

    def close(self) -> None:
        """End all of them."""
        self._stack.close()


class Servers:
    """Two servers on a database, and the cluster that they compute on, if any. One that has ended is started again."""

    def __init__(self, folder: Path, cluster: Cluster | None = None) -> None:
        self.url, self._folder, self.cluster = f"sqlite:///{folder}/x.db", folder, cluster
        self._stacks: list[ExitStack] = [ExitStack(), ExitStack()]
        self._started: list[tuple[subprocess.Popen[bytes], str]] = [self.start(place) for place in range(2)]

    def start(self, place: int) -> tuple[subprocess.Popen[bytes], str]:
        """Start the server of a place."""
        log = self._folder / f"log-{place}-{time.monotonic_ns()}"
        arguments = ["--port", "0", "--database-url", self.url, "--requests-per-second", "0"]
        arguments += ["--dask", self.cluster.address] if self.cluster else []
        return self._stacks[place].enter_context(conftest.serving(log, *arguments))

    def process(self, place: int) -> subprocess.Popen[bytes]:
        """The process of a place."""
        return self._started[place][0]

    def address(self, place: int) -> str:
        """Where a place answers."""
        return self._started[place][1]

    def replace(self, place: int) -> None:
        """Start a server again that has ended."""
        self._stacks[place].close()
        self._started[place] = self.start(place)

    def close(self) -> None:
        """End both."""
        for stack in self._stacks:
            stack.close()


@contextmanager
def two_servers(*, on_dask: bool = False) -> Iterator[tuple[Servers, Path]]:
    """Two servers, and a folder for what is asked of them."""
    conftest.PROGRAM = PROGRAM
    with tempfile.TemporaryDirectory(prefix="random-kills-") as folder, ExitStack() as stack:
        cluster = Cluster(Path(folder)) if on_dask else None
        if cluster:
            stack.callback(cluster.close)
        servers = Servers(Path(folder), cluster)
        stack.callback(servers.close)
        yield servers, Path(folder)


def kill(servers: Servers, folder: Path, way: str, place: int) -> None:
    """Kill, stop or end what computes a job, or the server of a place; heartbeats are missed at once."""
    process = servers.process(place)
    match way:
        case "process killed":
            for _, pid in begun(folder)[-1:]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        case "server killed":
            process.kill()
            process.wait(timeout=SECONDS_UNTIL_STUCK)
            as_if_later(servers.url)
            servers.replace(place)
        case "server stopped":
            process.send_signal(signal.SIGSTOP)
            as_if_later(servers.url)
            time.sleep(4.0)  # in which the other server looks
            process.send_signal(signal.SIGCONT)
        case "worker killed":
            for _, pid in begun(folder)[-1:]:
                with suppress(psutil.NoSuchProcess, ProcessLookupError):
                    os.kill(worker_of(pid), signal.SIGKILL)
        case "scheduler killed":
            assert servers.cluster is not None
            servers.cluster.kill_scheduler()
        case _:
            process.terminate()
            process.wait(timeout=SECONDS_UNTIL_STUCK)
            servers.replace(place)


def worker_of(pid: int) -> int:
    """The worker of Dask beside which a process computes. What has started it starts another one."""
    ancestors = psutil.Process(pid).parents()
    return next(each.pid for each, starter in itertools.pairwise(ancestors) if "worker" in starter.cmdline())


def run_one(servers: Servers, folder: Path, way: str, generator: random.Random) -> tuple[str, int]:
    """Ask a job, kill at a random moment, and return its outcome and how many chunks were begun more than once."""
    folder.mkdir()
    question: dict[str, Any] = {"folder": str(folder), "num_steps": NUM_CHUNKS, "seconds": SECONDS_OF_A_CHUNK}
    alone = {**question, "folder": str(folder / "alone")}
    Path(alone["folder"]).mkdir()
    request = StepsRequest.model_validate(alone | {"seconds": 0})
    expected = QUESTION.answer_request(request, ignore_progress).report.model_dump_json().encode()
    first, victim = generator.randrange(2), generator.randrange(2)
    asked = httpx.post(
        f"{servers.address(first)}/v1/steps",
        json=question,
        headers={"prefer": "respond-async"},
        timeout=SECONDS_UNTIL_STUCK,
    )
    job = asked.headers["location"]
    seconds = NUM_CHUNKS * SECONDS_OF_A_CHUNK + 0.5
    if servers.cluster:  # reaching it takes longer than its two workers need for all chunks
        until(lambda: begun(folder))
        seconds /= 2
    time.sleep(generator.uniform(0.0, seconds))
    kill(servers, folder, way, victim)
    address = servers.address(1 - victim)

    def end() -> str | None:
        found = httpx.get(f"{address}{job}", timeout=SECONDS_UNTIL_STUCK).json()
        return str(found["state"]) if found["ended_at"] else None

    state = until(end)
    result = httpx.get(f"{address}{job}/result", timeout=SECONDS_UNTIL_STUCK)
    steps = Counter(step for step, _ in begun(folder))
    if state == "done":
        outcome = "right" if result.content == expected else "done, wrong"
    else:
        outcome = BY_NAME if result.json().get("code") == "no-cluster" else f"{state}: {result.text}"
    return outcome, sum(steps.values()) - len(steps)


def main() -> int:
    """Print how each job ended; exit with 1 where one is lost or wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dask", action="store_true")
    given = parser.parse_args()
    generator = random.Random(given.seed)  # noqa: S311 - moments to repeat, no secrets
    outcomes: Counter[str] = Counter()
    num_again = num_lost = 0
    ways = WAYS_OF_DASK if given.dask else WAYS
    with two_servers(on_dask=given.dask) as (servers, folder):
        for number in range(given.kills):
            way = ways[number % len(ways)]
            outcome, again = run_one(servers, folder / f"{number}", way, generator)
            print(f"{number + 1} {way}: {outcome}, {again} of {NUM_CHUNKS} chunks begun again", flush=True)
            outcomes[outcome] += 1
            num_again += again
            num_lost += outcome != "right" and (outcome, way) != (BY_NAME, "scheduler killed")
    print(f"{given.kills} kills: {dict(outcomes)}; {num_again} of {given.kills * NUM_CHUNKS} chunks begun again")
    return int(num_lost > 0)


if __name__ == "__main__":
    sys.exit(main())
