"""Where the program starts: the installed `ckpt-bench`, and `python -m io_bench`, as torchrun starts the agent.

Signals are looked after before anything large is imported: torch alone takes seconds.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from io_bench import interruption


def start() -> NoReturn:
    """Run the command line of this process, and end without Python's own last steps.

    All that must end has ended by then, and what was said is flushed. Threads of torch that have not noticed yet would
    meet a Python that ends: that aborts the process or stops it for good, and the launchers of all nodes wait for it.
    """
    interruption.remember_launcher()
    interruption.end_at_once()
    from io_bench.commands.main import main  # noqa: PLC0415 - only now: see above

    exit_code = 1
    try:
        main()
    except SystemExit as end:
        exit_code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 - a defect: what Python would say of it
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    start()
