"""`ckpt-bench scan`: many configurations, one after the other, from the flags to the result document."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from io_bench.commands.journal import Journal, ScanState, journal_path
from io_bench.commands.run import publish, say_where, timeout_seconds
from io_bench.errors import RunEnded
from io_bench.options import MAX_DEFAULT_WRITERS, ScanOptions
from io_bench.ranks import local_ranks
from io_bench.ranks.process_group import ProcessGroup, join_group
from io_bench.request import Request, request_of
from io_bench.results.outputs import Renderer, reserve_outputs
from io_bench.results.scan_table import group_warnings, scan_sentences, scan_table
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput
from sizing.loading import loading
from sizing.present.scan import scan_chart
from sizing.storage.measurement import BenchmarkResult
from sizing.terminal.chart_files import draw_chart, require_chart_name


def scan(flags: Mapping[str, object]) -> None:
    """Measure every configuration that the flags span, on all ranks; write and show the result on rank 0.

    What was measured is written also where the scan fails or is interrupted, which raises RunEnded.
    """
    states: list[ScanState] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(local_ranks.start_ranks(_num_local_ranks(flags)))
        try:
            _scan(flags, states, stack)
        except RunEnded as end:
            saved_in = _save_measured(states)
            if not saved_in:
                raise
            raise RunEnded(f"{end} {saved_in}", end.exit_code, is_speaker=end.is_speaker) from end


def _scan(flags: Mapping[str, object], states: list[ScanState], stack: contextlib.ExitStack) -> None:
    """Scan on all ranks. On rank 0 the state goes into `states` at once, so that it is there after a failure."""
    with join_group(timeout_seconds(flags, ScanOptions)) as group:
        request = request_of(ScanOptions, flags, group)
        group.agree(lambda: states.extend(_open_state(request, group, stack)), doing="checking the output")
        state = states[0] if states else None
        terminal = Terminal(is_speaker=group.rank == 0)
        say_where(request, terminal)
        with loading():
            from io_bench.commands.campaign import measure_scan  # noqa: PLC0415 - imports torch: a second
        measure_scan(request, group, terminal, state)
        result = _finish(state, group, terminal) if state else None
    if result:
        publish(result, request, terminal)


def _open_state(request: Request[ScanOptions], group: ProcessGroup, stack: contextlib.ExitStack) -> list[ScanState]:
    """Open journal and output files on rank 0, which alone writes them. Raises InvalidInput."""
    if group.rank != 0:
        return []
    options = request.options
    if options.resume and options.output is None:
        rule, remedy = "needs --output", "give the result document of the scan to continue"
        raise InvalidInput.of("--resume", rule, value=None, remedy=remedy)
    charts = {name: _chart_renderer(name) for name in options.charts}
    outputs = stack.enter_context(reserve_outputs(request.output, csv=options.csv, charts=charts))
    path = journal_path(request.output)
    if options.resume:
        return [ScanState(Journal.resume(path, request), outputs, request.run_id)]
    return [ScanState(Journal.begin(path, request), outputs, request.run_id)]


def _chart_renderer(name: str) -> Renderer:
    """Make the renderer of a chart by the name of its file. Raises InvalidInput where the name is of no kind."""
    require_chart_name(Path(name))
    return lambda result: draw_chart(scan_chart(result), Path(name))


def _finish(state: ScanState, group: ProcessGroup, terminal: Terminal) -> BenchmarkResult | None:
    """Write and show the result. The journal is removed where nothing is left to measure."""
    result = state.result(group.ending.notes)
    if result is None:
        return None
    state.outputs.write(result)
    terminal.show(scan_table(result))
    for sentence in scan_sentences(result):
        terminal.show(sentence)
    for warning in group_warnings(result.warnings):
        terminal.say(f"warning: {warning}")
    terminal.show(f"Result written to {', '.join(map(str, state.outputs.paths))}.")
    if state.num_left:
        terminal.say(state.remedy)
    else:
        state.journal.remove()
    return result


def _save_measured(states: list[ScanState]) -> str:
    """Write what was measured before the end, and say where; a journal without a line is removed.

    A scan that ended before it was planned has measured nothing new: the document of its earlier sitting stays.
    """
    if not states:
        return ""
    (state,) = states
    result = state.result()
    if result is None:
        state.journal.remove()
        return ""
    if not state.num_configurations:
        return ""
    state.outputs.write(result)
    return state.remedy


def _num_local_ranks(flags: Mapping[str, object]) -> int:
    """Count the ranks to start here where no launcher has: as many as the scan will have writers on this node."""
    if local_ranks.is_launched():
        return 1
    try:
        options = ScanOptions.of(flags)
    except InvalidInput:
        return 1  # which says what is wrong
    cpus = len(os.sched_getaffinity(0))
    return max(options.writers_per_node or (min(cpus, MAX_DEFAULT_WRITERS),))
