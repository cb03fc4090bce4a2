"""A signal ends a run, whatever code it came in."""

import contextlib
import signal

import pytest

from io_bench import interruption
from io_bench.interruption import Interrupted


def test_an_interruption_that_a_library_took_for_its_own_is_raised_again() -> None:
    interruption.expect()
    interruption.heed()
    with contextlib.suppress(Interrupted):  # as a library does that tries something out
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Interrupted, match="was interrupted by SIGTERM"):
        interruption.heed()
    interruption.expect()
    interruption.heed()
