"""Commands as their user types them, in this process: a new one takes a second to start and to import."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

from sizing.cli.main import main


def typed(
    main: Callable[[], None], *command: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The exit code of a program's `main`, and what stands in the terminal."""
    output, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", list(command)),
        mock.patch.dict(os.environ, environment or {}),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        try:
            main()
            exit_code = 0
        except SystemExit as end:
            exit_code = end.code if isinstance(end.code, int) else 0
    return subprocess.CompletedProcess(command, exit_code, output.getvalue(), errors.getvalue())


def ckpt_size(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`ckpt-size` in the directory `cwd`."""
    return typed(main, "ckpt-size", *arguments, cwd=cwd)
