"""`ckpt-bench run`: one configuration, repeated, from the flags to the result document."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from io_bench.measure.corruption import raise_where_corrupt
from io_bench.options import DEFAULT_TIMEOUT_SECONDS, MlperfOptions, Options, RunOptions
from io_bench.ranks import local_ranks
from io_bench.ranks.process_group import ProcessGroup, join_group
from io_bench.request import Request, request_of
from io_bench.results.outputs import reserve_outputs
from io_bench.results.result_table import result_table, sentences
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput
from sizing.loading import loading
from sizing.storage.measurement import BenchmarkResult


def run(flags: Mapping[str, object]) -> None:
    """Measure what the flags ask for, on all ranks; write and show the result on rank 0.

    Raises RunEnded where that fails, with the same message on all ranks.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(local_ranks.start_ranks(num_local_ranks(flags)))
        group = stack.enter_context(join_group(timeout_seconds(flags, RunOptions)))
        request = request_of(RunOptions, flags, group)
        group.agree(lambda: check_ranks(request.options.num_ranks, group), doing="counting the ranks")
        # Rank 0 alone writes files.
        outputs = group.agree(
            lambda: (
                stack.enter_context(reserve_outputs(request.output, csv=request.options.csv))
                if group.rank == 0
                else None
            ),
            doing="checking the output",
        )
        terminal = Terminal(is_speaker=group.rank == 0)
        say_where(request, terminal)
        with loading():
            from io_bench.commands.campaign import measure_run  # noqa: PLC0415 - imports torch: a second
        result = measure_run(request, group, terminal)
        if outputs and result:
            # Shown first: what cannot be written is not lost altogether.
            terminal.show(result_table(result))
            for sentence in sentences(result):
                terminal.show(sentence)
            for warning in result.warnings:
                terminal.say(f"warning: {warning}")
            outputs.write(result)
            terminal.show(f"Result written to {', '.join(map(str, outputs.paths))}.")
        raise_where_corrupt(result.corruption if result else None, group)
    if result:
        publish(result, request, terminal)


def num_local_ranks(flags: Mapping[str, object], kind: type[RunOptions] | type[MlperfOptions] = RunOptions) -> int:
    """Count the ranks to start here where no launcher has, as the flags of a verb say."""
    if local_ranks.is_launched():
        return 1
    try:
        return kind.of(flags).num_ranks or 1
    except InvalidInput:
        return 1  # which says what is wrong


def check_ranks(num_ranks: int | None, group: ProcessGroup) -> None:
    """Raise InvalidInput where a launcher has started another number of ranks than the flags ask for."""
    if num_ranks not in (None, group.num_ranks):
        rule, remedy = f"must be {group.num_ranks}, the ranks that were launched", "omit it under a launcher"
        raise InvalidInput.of("--ranks", rule, value=num_ranks, remedy=remedy)


def timeout_seconds(flags: Mapping[str, object], kind: type[Options]) -> float:
    """Read the time limit from the flags; the default where they are wrong, to agree on what is wrong."""
    try:
        return kind.of(flags).timeout_seconds
    except InvalidInput:
        return DEFAULT_TIMEOUT_SECONDS


def say_where(request: Request[Any], terminal: Terminal) -> None:
    """Say what is remarkable about the target, if anything."""
    if request.target.remark:
        terminal.say(request.target.remark)


def publish(result: BenchmarkResult, request: Request[Any], terminal: Terminal) -> None:
    """Send the result where that is asked for. One that cannot be sent waits, and the run succeeds all the same."""
    if request.options.publish is None:
        return
    from io_bench.results.publishing import publish_result  # noqa: PLC0415 - few runs need the network

    for sentence in publish_result(result, request.options.publish, terminal.say).sentences():
        terminal.say(sentence)
