"""Ranks that the command starts itself, whatever comes in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from io_bench import interruption
from io_bench.interruption import Interrupted
from io_bench.ranks import local_ranks


def test_a_signal_in_the_middle_of_a_start_forgets_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    born: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def interrupted_at_the_second(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        born.append(real(*arguments, **options))
        if len(born) == 2:
            signal.raise_signal(signal.SIGTERM)
        return born[-1]

    monkeypatch.setattr(sys, "orig_argv", ["sleep", "60"])
    monkeypatch.setattr(subprocess, "Popen", interrupted_at_the_second)
    interruption.expect()
    with pytest.raises(Interrupted), local_ranks.start_ranks(4):
        pytest.fail("it goes on")
    assert [rank.returncode for rank in born] == [-signal.SIGTERM] * 2
    assert "RANK" not in os.environ
