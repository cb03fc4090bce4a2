"""Functions for other processes to compute; the module is small, for they import it first."""

import os
import signal
import tempfile
import time
from pathlib import Path

from service.answers.progress import tell
from service.errors import NotReady
from sizing.errors import InvalidInput


def eat(num_bytes: int) -> bytes:
    return b"x" * num_bytes


def eat_and_count(num_bytes: int) -> bytes:
    return str(len(eat(num_bytes))).encode()


_kept: list[bytes] = []


def keep(num_bytes: int) -> bytes:
    """Keeps so much for later, as a cache does; the process says who it is."""
    _kept.append(eat(num_bytes))
    return process_id()


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


def sleep_over_a_file(note: str) -> bytes:
    """Sleeps while a temporary file is open; its name, and the id of the process, are in a file."""
    with tempfile.NamedTemporaryFile() as file:
        Path(note).write_text(f"{os.getpid()} {file.name}")
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


def stay_busy() -> bytes:
    """Computes longer than any test waits, and heeds signals between two steps."""
    try:
        while True:
            time.sleep(0.01)
    except Exception:  # noqa: BLE001 - as a library may: it must not keep a question from giving way
        return b"kept on"


def heed_nothing(file: str) -> bytes:
    """Sleeps as `sleep_as`, and heeds no signal but SIGKILL."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    return sleep_as(file)


def process_id() -> bytes:
    return str(os.getpid()).encode()
