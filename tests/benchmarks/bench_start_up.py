"""Processor time from the start of a command line to its end, beside the import of its libraries. Prints, judges nothing."""

import os
import resource
import statistics
import subprocess
import sys

import pytest

PAIRS = 5

LIBRARIES = "import numpy, pydantic, typer, rich"
PROGRAMS = {
    "ckpt-size": "from sizing.cli.main import main as start",
    "ckpt-bench": "from io_bench.__main__ import start",
    "ckpt-serve": "from service.cli.main import main as start",
}
COMMANDS = (
    "ckpt-size --help",
    "ckpt-size answer --help",
    "ckpt-size sweep --help",
    "ckpt-size validate --help",
    "ckpt-size answer --model llama-3.1-8b --data 8 --framework fsdp2 --write-bandwidth 10GB/s",
    "ckpt-size sweep --model gpt2 --data 1,2,4 --write-bandwidth 1GB/s",
    "ckpt-bench --help",
    "ckpt-bench run --help",
    "ckpt-serve --help",
)


def processor_seconds(code: str, *words: str) -> float:
    """User time of a process, with compiled modules as an installed program has them."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=True, env=environment)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


@pytest.mark.benchmark
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_line_against_its_libraries(command: str) -> None:
    program, *words = command.split()
    code = f"import sys; sys.argv[0] = {program!r}; {PROGRAMS[program]}; start()"
    pairs = [(processor_seconds(code, *words), processor_seconds(LIBRARIES)) for _ in range(PAIRS + 1)][1:]
    ratios = [ours / libraries for ours, libraries in pairs]
    seconds = statistics.median(ours for ours, _ in pairs)
    low, high = min(ratios), max(ratios)
    print(f"\n{command}: {seconds:.2f} s, {statistics.median(ratios):.2f} x the libraries ({low:.2f} to {high:.2f})")
