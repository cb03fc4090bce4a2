"""One configuration, repeated: from the flags to the result document."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from io_bench.options import DEFAULT_TIMEOUT_SECONDS, RunOptions
from io_bench.process_group import ProcessGroup, joined
from io_bench.request import Request, request_of
from io_bench.result_file import ResultFile, reserved
from io_bench.result_table import result_table, sentences
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult


def run(flags: Mapping[str, object]) -> None:
    """Measure what the flags ask for, on all ranks; write and show the result on rank 0.

    Raises RunEnded where that fails, with the same message on all ranks.
    """
    with joined(_timeout_seconds(flags)) as group, contextlib.ExitStack() as held:
        request = request_of(flags, group)
        output = group.agree(lambda: _output(request, group, held), doing="checking the output")
        terminal = Terminal(is_speaker=group.rank == 0)
        if request.target.remark:
            terminal.say(request.target.remark)
        result = _measured(request, group, terminal)
        if output:
            output.write(result.model_dump_json(indent=2) + "\n")
            _show(result, output.path, terminal)


def _measured(request: Request, group: ProcessGroup, terminal: Terminal) -> BenchmarkResult:
    from io_bench.campaign.repetitions import measured_result  # noqa: PLC0415 - imports torch: a second

    return measured_result(request, group, terminal)


def _show(result: BenchmarkResult, path: Path, terminal: Terminal) -> None:
    terminal.show(result_table(result))
    for sentence in sentences(result):
        terminal.show(sentence)
    for warning in result.warnings:
        terminal.say(f"Warning: {warning}")
    terminal.show(f"Result written to {path}.")


def _output(request: Request, group: ProcessGroup, held: contextlib.ExitStack) -> ResultFile | None:
    """The result file, which is rank 0's alone."""
    return held.enter_context(reserved(request.output)) if group.rank == 0 else None


def _timeout_seconds(flags: Mapping[str, object]) -> float:
    """The time limit that the flags give; the default where they are wrong, to agree on what is wrong."""
    try:
        return RunOptions.of(flags).timeout_seconds
    except InvalidInput:
        return DEFAULT_TIMEOUT_SECONDS
