"""Ranks of a module that are forked from one process, which imports the module once for all of them.

To import a framework takes each rank seconds that its work does not. Whoever forks has no threads yet: it imports,
forks and waits, and every rank makes its own process group.
Started by `ForkedRanks`: python -m io_bench.checks.validation.forked_ranks MODULE
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch does not list it

from io_bench import interruption
from io_bench.interruption import Interrupted


def leave() -> NoReturn:
    """Take leave of the other ranks and end this process with exit code 0, without Python's own last steps.

    A framework holds the process group by its meshes and engines, so that to destroy it does not end gloo's threads.
    One that lets go of the tensors of its last collective while Python ends has to wait for Python, which ends that
    thread instead, and with it the process: "terminate called without an active exception".
    """
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
"""One thread per rank, as torchrun has it: more would live in the process that forks. DeepSpeed uses no GPU."""
_MAX_OUTPUT_BYTES = 1 << 20
"""Max bytes of the output of ranks that is read: more than the stacks of many ranks."""


class ForkedRanks:
    """Starts ranks of a module, whose `main` takes the arguments as a list and runs in a process group of gloo."""

    def __init__(self, module: str) -> None:
        self._output = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - `end` closes it
        requests, answers = os.pipe(), os.pipe()
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", __name__, module],
            stdin=requests[0],
            stdout=answers[1],
            stderr=self._output,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,
        )
        for end in (requests[0], answers[1]):
            os.close(end)
        self._to, self._from = os.fdopen(requests[1], "w"), os.fdopen(answers[0])
        atexit.register(self.end)

    def run(self, arguments: Sequence[str], *, num_ranks: int, max_seconds: float) -> str | None:
        """Run the ranks; return their output where one failed, or None where all did their work.

        Raises TimeoutError or Interrupted, after which no rank runs any more and none can be started.
        """
        before = os.fstat(self._output.fileno()).st_size
        with contextlib.suppress(BrokenPipeError):  # it could not import the module, and has said why
            self._to.write(json.dumps([num_ranks, *arguments]) + "\n")
            self._to.flush()
        try:
            with interruption.at_once():
                has_answered = bool(select.select([self._from], [], [], max_seconds)[0])
        except Interrupted:
            self.end()
            raise
        if not has_answered:
            self.end()
            raise TimeoutError
        failed = self._from.readline()
        if failed == "\n":
            return None
        size = os.fstat(self._output.fileno()).st_size
        before = before if failed else 0  # where there are no ranks, what it said when it began is the reason
        output = os.pread(self._output.fileno(), _MAX_OUTPUT_BYTES, max(before, size - _MAX_OUTPUT_BYTES))
        return output.decode(errors="replace") + failed

    def end(self) -> None:
        """End the process, and all ranks that still run."""
        atexit.unregister(self.end)
        if self._output.closed:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for file in (self._to, self._from, self._output):
            with contextlib.suppress(BrokenPipeError):
                file.close()

    @property
    def is_ready(self) -> bool:
        """Whether the process has not ended."""
        return not self._output.closed and self._process.poll() is None


def _serve(module: str) -> None:
    """Fork the ranks that are asked for, one request after the other, and answer how they ended."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # modules print while they are imported
    work = importlib.import_module(module).main
    gc.freeze()  # ranks have their own copy of whatever a collection of garbage touches
    for request in sys.stdin:
        num_ranks, *arguments = json.loads(request)
        with socket.create_server(("127.0.0.1", 0)) as meeting:
            ranks: dict[int, int] = {}
            for rank in range(num_ranks):
                pid = os.fork()
                if pid == 0:
                    _run_rank(functools.partial(work, arguments), rank, num_ranks, meeting)
                ranks[pid] = rank
        print(_await_ranks(ranks), file=answers, flush=True)


def _run_rank(work: Callable[[], None], rank: int, num_ranks: int, meeting: socket.socket) -> NoReturn:
    """Run the work as one rank, and end the process: never return."""
    faulthandler.enable()
    here = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": num_ranks, "LOCAL_WORLD_SIZE": num_ranks}
    os.environ.update({name: str(value) for name, value in here.items()})
    torch.seed()  # no two ranks draw the same numbers, unless what they run asks for it
    try:
        store = _open_store(meeting, is_host=rank == 0)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=num_ranks)
        work()
        leave()
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(1)


def _open_store(meeting: socket.socket, *, is_host: bool) -> TCPStore:
    """Open the ranks' store on a socket that was there before them, so that no other program can take its port."""
    host, port = meeting.getsockname()
    if not is_host:
        return TCPStore(host, port)
    return TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=meeting.detach())


def _await_ranks(ranks: dict[int, int]) -> str:
    """Wait until all ranks have ended; say which failed first and how. The others are killed then."""
    failed = ""
    while ranks:
        pid, status = os.wait()
        rank, code = ranks.pop(pid, None), os.waitstatus_to_exitcode(status)
        if rank is None or code == 0 or failed:
            continue
        how = f"Signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
        failed = f"rank {rank} (process {pid}) ended by {how}"
        for other in ranks:
            os.kill(other, signal.SIGKILL)
    return failed


if __name__ == "__main__":
    _serve(sys.argv[1])
