"""Functions for other processes to compute; the module is small, for they import it first."""

import os
import time
from pathlib import Path

from service.answers.progress import tell
from service.errors import NotReady
from sizing.errors import InvalidInput


def eat(num_bytes: int) -> bytes:
    return b"x" * num_bytes


def refuse() -> bytes:
    raise InvalidInput.of("a", "must be b", value=1, remedy="give b")


def refuse_for_now() -> bytes:
    raise NotReady.of("a part", "must be ready", value=None, remedy="wait")


def fail() -> bytes:
    raise ZeroDivisionError("nobody expects this")


def end_by(signal_number: int) -> bytes:
    os.kill(os.getpid(), signal_number)
    return b""


def leave(exit_code: int) -> bytes:
    os._exit(exit_code)


def nap() -> bytes:
    time.sleep(0.1)
    return b"rested"


def sleep() -> bytes:
    """Takes longer than any test waits."""
    time.sleep(24 * 3600)
    return b""


def sleep_as(file: str) -> bytes:
    """Sleeps in a process whose id is in a file."""
    Path(file).write_text(str(os.getpid()))
    return sleep()


def wait_for(file: str) -> bytes:
    """Ends once there is a file."""
    while not Path(file).exists():
        time.sleep(0.01)
    return b"found"


def answered(document: object) -> bytes:
    """A report, as the route of sizings makes it."""
    from sizing.report import answer  # noqa: PLC0415 - as small as it says above
    from sizing.scenario import scenario_from  # noqa: PLC0415 - as above

    return answer(scenario_from(document)).model_dump_json().encode()


def go_half_way() -> bytes:
    """Tell that half is done."""
    tell(0.5)
    return b"half"


def crawl() -> bytes:
    """Tell again and again that next to nothing is done."""
    while True:
        tell(1e-9)
        time.sleep(0.01)
