"""Several ranks on this machine by one command: this process becomes rank 0 and starts the others as itself."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from io_bench import interruption
from io_bench.errors import RunEnded
from io_bench.ranks.placement import placement_in
from io_bench.ranks.topology import MEETING_DESCRIPTOR

MAX_GOODBYE_SECONDS = 30.0
"""Longer than the ranks' own farewell and the removal of their files."""


def is_launched() -> bool:
    """Whether a launcher has started this process as a rank. Raises InvalidInput as `placement_in`."""
    return "RANK" in os.environ or placement_in(os.environ).num_ranks > 1


@contextmanager
def start_ranks(num_ranks: int) -> Iterator[None]:
    """Start the other ranks for the time of a campaign; afterwards they are gone. For one rank nothing happens."""
    if num_ranks == 1:
        yield
        return
    with _as_rank_0(num_ranks), _others(num_ranks):
        yield


@contextmanager
def _as_rank_0(num_ranks: int) -> Iterator[None]:
    """Tell the process what a launcher would; the other ranks inherit where to meet.

    Rank 0 listens before it names the port, so that no other program can take it.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(listener.getsockname()[1])}
        own = {"RANK": "0", "LOCAL_RANK": "0", MEETING_DESCRIPTOR: str(listener.fileno())}
        variables = meeting | {"WORLD_SIZE": str(num_ranks)} | own
        os.environ.update(variables)
        try:
            yield
        finally:
            for name in variables:
                os.environ.pop(name, None)


@contextmanager
def _others(num_ranks: int) -> Iterator[None]:
    """Run all ranks but this one, until they end by themselves, or are made to."""
    others: list[subprocess.Popen[bytes]] = []
    goodbye_seconds = MAX_GOODBYE_SECONDS
    try:
        for rank in range(1, num_ranks):
            environment = os.environ | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            interruption.heed()
            others.append(subprocess.Popen(sys.orig_argv, env=environment))  # noqa: S603 - this very command
        yield
    except RunEnded:
        raise
    except BaseException:
        # They have not met yet, so they would wait for this rank.
        for other in others:
            other.terminate()
        goodbye_seconds = 1.0
        raise
    finally:
        for other in others:
            _end(other, goodbye_seconds)


def _end(process: subprocess.Popen[bytes], goodbye_seconds: float) -> None:
    """Let a rank end by itself, as it does when the campaign is over; where it does not, make it."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(goodbye_seconds)
        return
    process.kill()
    process.wait()
