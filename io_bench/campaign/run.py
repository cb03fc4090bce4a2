"""One configuration, repeated: from the flags to the result document."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from io_bench.campaign.corrupt_data import raise_where_corrupt
from io_bench.ranks import local_ranks
from io_bench.ranks.process_group import ProcessGroup, joined
from io_bench.request.agreed_request import Request, request_of
from io_bench.request.options import DEFAULT_TIMEOUT_SECONDS, MlperfOptions, Options, RunOptions
from io_bench.results.outputs import Outputs, reserved_outputs
from io_bench.results.result_table import result_table, sentences
from io_bench.terminal import Terminal
from sizing.cli.loading import loading
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult


def run(flags: Mapping[str, object]) -> None:
    """Measure what the flags ask for, on all ranks; write and show the result on rank 0.

    Raises RunEnded where that fails, with the same message on all ranks.
    """
    with contextlib.ExitStack() as held:
        held.enter_context(local_ranks.started(num_local_ranks(flags)))
        group = held.enter_context(joined(timeout_seconds(flags, RunOptions)))
        request = request_of(RunOptions, flags, group)
        group.agree(lambda: check_ranks(request.options.num_ranks, group), doing="counting the ranks")
        outputs = group.agree(lambda: _outputs(request, group, held), doing="checking the output")
        terminal = Terminal(is_speaker=group.rank == 0)
        say_where(request, terminal)
        result = _measured(request, group, terminal)
        if outputs and result:
            _show(result, terminal)  # first: what cannot be written is not lost altogether
            outputs.write(result)
            terminal.show(f"Result written to {', '.join(map(str, outputs.paths))}.")
        raise_where_corrupt(result.corruption if result else None, group)
    if result:
        publish(result, request, terminal)


def num_local_ranks(flags: Mapping[str, object], kind: type[RunOptions] | type[MlperfOptions] = RunOptions) -> int:
    """The ranks to start here where no launcher has, as the flags of a verb say."""
    if local_ranks.is_launched():
        return 1
    try:
        return kind.of(flags).num_ranks or 1
    except InvalidInput:
        return 1  # which says what is wrong


def check_ranks(asked: int | None, group: ProcessGroup) -> None:
    """Raise InvalidInput where a launcher has started another number of ranks than the flags ask for."""
    if asked not in (None, group.num_ranks):
        rule, remedy = f"must be {group.num_ranks}, the ranks that were launched", "omit it under a launcher"
        raise InvalidInput.of("--ranks", rule, value=asked, remedy=remedy)


def timeout_seconds(flags: Mapping[str, object], kind: type[Options]) -> float:
    """The time limit that the flags give; the default where they are wrong, to agree on what is wrong."""
    try:
        return kind.of(flags).timeout_seconds
    except InvalidInput:
        return DEFAULT_TIMEOUT_SECONDS


def say_where(request: Request[Any], terminal: Terminal) -> None:
    """Say what the user should know of the target."""
    if request.target.remark:
        terminal.say(request.target.remark)


def _show(result: BenchmarkResult, terminal: Terminal) -> None:
    terminal.show(result_table(result))
    for sentence in sentences(result):
        terminal.show(sentence)
    for warning in result.warnings:
        terminal.say(f"warning: {warning}")


def publish(result: BenchmarkResult, request: Request[Any], terminal: Terminal) -> None:
    """Send the result where that is asked for; while it cannot be sent it waits, and the run is none the worse."""
    if request.options.publish is None:
        return
    from io_bench.publishing.publish import publish_result  # noqa: PLC0415 - few runs need the network

    for sentence in publish_result(result, request.options.publish, terminal.say).sentences():
        terminal.say(sentence)


def _measured(request: Request[RunOptions], group: ProcessGroup, terminal: Terminal) -> BenchmarkResult | None:
    with loading():
        from io_bench.campaign.run_measurement import measured_result  # noqa: PLC0415 - imports torch: a second

    return measured_result(request, group, terminal)


def _outputs(request: Request[RunOptions], group: ProcessGroup, held: contextlib.ExitStack) -> Outputs | None:
    """The output files, which are rank 0's alone."""
    if group.rank != 0:
        return None
    return held.enter_context(reserved_outputs(request.output, csv=request.options.csv))
