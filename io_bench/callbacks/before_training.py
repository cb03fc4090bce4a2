"""Check of a machine before a training begins, as a callback makes it: `ckpt-bench check` in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from io_bench.terminal import Terminal
from sizing.errors import EXIT_BAD_INPUT


class NotFitForTraining(RuntimeError):
    """Raised where a machine cannot hold the checkpoints of the training; the message says why."""


def check_before_training(target: str, documents: Mapping[str, Mapping[str, Any]], *, num_gpus: int) -> None:
    """Run `ckpt-bench check` for a training whose settings are `documents`, by the names of config files.

    Shows the table of the checks. Warns where the training is endangered; raises NotFitForTraining where its
    checkpoints cannot be saved.
    """
    Path(target).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, document in documents.items():
            (Path(folder) / name).write_text(json.dumps(document, default=str))
        files = [str(Path(folder) / name) for name in documents]
        command = (sys.executable, "-m", "io_bench", "check", "--target", target, "--gpus", str(num_gpus))
        done = subprocess.run(  # noqa: S603 - this program, with files of its own
            [*command, "--from", *files], capture_output=True, text=True, check=False
        )
    Terminal(is_speaker=True).show(done.stdout)
    if done.returncode == EXIT_BAD_INPUT:
        raise NotFitForTraining(done.stderr.strip())
    if done.returncode:
        warnings.warn(done.stderr.strip(), stacklevel=2)
