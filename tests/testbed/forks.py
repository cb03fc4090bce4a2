"""Programs of Python that begin as forks of a process which has their modules: torch alone takes seconds to import.

Who starts one has a `subprocess.Popen` of it: its pipes, its end, signals to it. What the environment decides while
modules are imported is decided before; all else is as for a program that Python starts anew.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypedDict, Unpack

REPOSITORY = Path(__file__).parents[2]

_MAX_REQUEST_BYTES = 1 << 18
_MAX_DESCRIPTORS = 32
_FIRST_FREE = 100
"""Descriptors from here on are none that a program asks for."""
_STANDARD = (0, 1, 2)


class Nursery:
    """A process that has imported some modules and forks programs. It ends with the process that started it."""

    def __init__(self, *modules: str) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = f"from {__name__} import serve; serve({theirs.fileno()}, {modules!r})"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                cwd=REPOSITORY,
                env=os.environ | {"PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._requests.close()
        self._process.wait()

    def fork(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> tuple[int, socket.SocketIO]:
        """The process id of a new program, and the file that tells its status once it has ended."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._requests, [json.dumps(request).encode()], [theirs.fileno(), *descriptors])
        with ours:
            told = ours.makefile("rb", buffering=0)
        return int(told.readline()), told


@functools.cache
def nursery(*modules: str) -> Nursery:
    """The one of this process for some modules."""
    return Nursery(*modules)


class ForkOptions(TypedDict, total=False):
    """What `subprocess.Popen` takes and a fork heeds."""

    stdin: int | IO[Any]
    stdout: int | IO[Any]
    stderr: int | IO[Any]
    text: bool
    cwd: str | Path
    env: Mapping[str, str]
    pass_fds: Sequence[int]
    start_new_session: bool


class ForkedProgram(subprocess.Popen[Any]):
    """A command `python -c CODE ...`, forked by a nursery, which as its parent tells how it ended."""

    def __init__(self, of: Nursery, command: Sequence[str], **options: Unpack[ForkOptions]) -> None:
        self._nursery = of
        super().__init__(command, **options)

    def _execute_child(self, args: Sequence[str], *options: Any) -> None:
        """Fork, in place of what starts a program in `subprocess`."""
        _, _, _, pass_fds, folder, environment, _, _, _, *ends = options
        child_in, our_in, our_out, child_out, our_err, child_err, _, _, _, _, _, has_own_session, _ = ends
        standard = [
            own if end == -1 else end for own, end in zip(_STANDARD, (child_in, child_out, child_err), strict=True)
        ]
        request = {
            "command": args,
            "folder": os.fspath(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment),
            "places": [*_STANDARD, *pass_fds],
            "has_own_session": bool(has_own_session),
        }
        self.pid, self._told = self._nursery.fork(request, [*standard, *pass_fds])
        self._child_created = True
        self._close_pipe_fds(child_in, our_in, our_out, child_out, our_err, child_err)  # type: ignore[attr-defined]  # typeshed has none

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As `os.waitpid` answers: process id and status, or zeros while the program runs."""
        if not select.select([self._told], [], [], 0 if wait_flags & os.WNOHANG else None)[0]:
            return 0, 0
        with self._told:
            return self.pid, int(self._told.readline())

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        ended: int | None = super()._internal_poll(  # type: ignore[misc]  # typeshed has none
            _deadstate, _waitpid=lambda _, flags: self._try_wait(flags)
        )
        return ended


def serve(descriptor: int, modules: Sequence[str]) -> None:
    """Import modules and fork the programs that are asked for, until nobody can ask. In a program it returns too."""
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # programs have their own copy of whatever a collection of garbage touches
    requests, ends = socket.socket(fileno=descriptor), dict[Any, tuple[int, int]]()
    while True:
        ready, _, _ = select.select([requests, *ends], [], [])
        for end in ready:
            if end is not requests:
                told, pid = ends.pop(end)
                os.write(told, b"%d\n" % os.waitpid(pid, 0)[1])
                os.close(told)
                os.close(end)
        if requests not in ready:
            continue
        message, received, _, _ = socket.recv_fds(requests, _MAX_REQUEST_BYTES, _MAX_DESCRIPTORS)
        if not message:
            return
        told, *descriptors = received
        pid = os.fork()
        if pid == 0:
            requests.detach()
            _run(json.loads(message), descriptors)
            return
        os.write(told, b"%d\n" % pid)
        ends[os.pidfd_open(pid)] = told, pid
        for each in descriptors:
            os.close(each)


def _run(request: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Run a program in this process, with nothing of the nursery but what it has imported."""
    if request["has_own_session"]:
        os.setsid()
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE) for each in descriptors]
    os.closerange(max(_STANDARD) + 1, _FIRST_FREE)
    for place, each in zip(request["places"], moved, strict=True):
        os.dup2(each, place)
        os.close(each)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.orig_argv = request["command"]
    _, option, code, *arguments = sys.orig_argv
    sys.argv = [option, *arguments]
    exec(compile(code, "<string>", "exec"), sys.modules["__main__"].__dict__)  # noqa: S102 - as -c does
