"""Many configurations, one after the other: from the flags to the result document, whatever comes between."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from io_bench.campaign.books import Books
from io_bench.campaign.journal import Journal, journal_path
from io_bench.campaign.run import publish, say_where, timeout_seconds
from io_bench.errors import RunEnded
from io_bench.ranks import local_ranks
from io_bench.ranks.process_group import ProcessGroup, joined
from io_bench.request.agreed_request import Request, request_of
from io_bench.request.options import MAX_DEFAULT_WRITERS, ScanOptions
from io_bench.results.outputs import Rendered, reserved_outputs
from io_bench.results.scan_table import grouped, scan_sentences, scan_table
from io_bench.terminal import Terminal
from sizing.charts.files import drawn, require_chart_name
from sizing.charts.scan import scan_chart
from sizing.cli.loading import loading
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult


def scan(flags: Mapping[str, object]) -> None:
    """Measure every configuration that the flags span, on all ranks; write and show the result on rank 0.

    What was measured is written also where the scan fails or is interrupted, which raises RunEnded.
    """
    opened: list[Books] = []
    with contextlib.ExitStack() as held:
        held.enter_context(local_ranks.started(_num_local_ranks(flags)))
        try:
            _scan(flags, opened, held)
        except RunEnded as end:
            saved = _saved(opened)
            if not saved:
                raise
            raise RunEnded(f"{end} {saved}", end.exit_code, is_speaker=end.is_speaker) from end


def _scan(flags: Mapping[str, object], opened: list[Books], held: contextlib.ExitStack) -> None:
    with joined(timeout_seconds(flags, ScanOptions)) as group:
        request = request_of(ScanOptions, flags, group)
        group.agree(lambda: opened.extend(_books(request, group, held)), doing="checking the output")
        books = opened[0] if opened else None
        terminal = Terminal(is_speaker=group.rank == 0)
        say_where(request, terminal)
        _measure(request, group, terminal, books)
        result = _finished(books, group, terminal) if books else None
    if result:
        publish(result, request, terminal)


def _measure(request: Request[ScanOptions], group: ProcessGroup, terminal: Terminal, books: Books | None) -> None:
    with loading():
        from io_bench.campaign.scan_measurement import measure  # noqa: PLC0415 - imports torch: a second

    measure(request, group, terminal, books)


def _books(request: Request[ScanOptions], group: ProcessGroup, held: contextlib.ExitStack) -> list[Books]:
    """Journal and output files, which are rank 0's alone. Raises InvalidInput."""
    if group.rank != 0:
        return []
    options = request.options
    if options.resume and options.output is None:
        rule, remedy = "needs --output", "give the result document of the scan to continue"
        raise InvalidInput.of("--resume", rule, value=None, remedy=remedy)
    outputs = held.enter_context(
        reserved_outputs(request.output, csv=options.csv, charts={name: _drawing(name) for name in options.charts})
    )
    path = journal_path(request.output)
    if options.resume:
        return [Books(Journal.resumed(path, request), outputs, request.run_id)]
    return [Books(Journal.begun(path, request), outputs, request.run_id)]


def _drawing(name: str) -> Rendered:
    require_chart_name(Path(name))
    return lambda result: drawn(scan_chart(result), Path(name))


def _finished(books: Books, group: ProcessGroup, terminal: Terminal) -> BenchmarkResult | None:
    result = books.result(group.ending.notes)
    if result is None:
        return None
    books.outputs.write(result)
    _show(result, books, terminal)
    if books.num_left:
        terminal.say(books.remedy)
    else:
        books.journal.remove()
    return result


def _saved(opened: list[Books]) -> str:
    """Write what was measured before the end, and say where; a journal without a line is removed.

    A scan that ended before it was planned has measured nothing new: the document of its earlier sitting stays.
    """
    if not opened:
        return ""
    (books,) = opened
    result = books.result()
    if result is None:
        books.journal.remove()
        return ""
    if not books.num_configurations:
        return ""
    books.outputs.write(result)
    return books.remedy


def _show(result: BenchmarkResult, books: Books, terminal: Terminal) -> None:
    terminal.show(scan_table(result))
    for sentence in scan_sentences(result):
        terminal.show(sentence)
    for warning in grouped(result.warnings):
        terminal.say(f"warning: {warning}")
    terminal.show(f"Result written to {', '.join(map(str, books.outputs.paths))}.")


def _num_local_ranks(flags: Mapping[str, object]) -> int:
    """The ranks to start here where no launcher has: as many as the scan will have writers on this node."""
    if local_ranks.is_launched():
        return 1
    try:
        options = ScanOptions.of(flags)
    except InvalidInput:
        return 1  # which says what is wrong
    cpus = len(os.sched_getaffinity(0))
    return max(options.writers_per_node or (min(cpus, MAX_DEFAULT_WRITERS),))
