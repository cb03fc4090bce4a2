"""`python -m io_bench`, which is how torchrun starts the agent."""

from __future__ import annotations

import contextlib
import os
import sys

from io_bench.cli.main import main


def _run() -> None:
    """Run to the end; a rank of a launcher goes without Python's own last steps.

    All that a rank has to end it has ended by then. Threads of torch that have not noticed yet would meet a Python that
    ends: that aborts the process or stops it for good, and the launchers of all nodes wait for it.
    """
    try:
        main()
    except SystemExit as end:
        if "RANK" not in os.environ or not isinstance(end.code, int):
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        os._exit(end.code)


if __name__ == "__main__":
    _run()
