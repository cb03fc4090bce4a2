"""A workload of MLPerf Storage, from the flags to the folder that the benchmark's reporting tool reads."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Mapping
from pathlib import Path

from io_bench.commands.mlperf.workload import MlperfWorkload, subset_processes
from io_bench.commands.run import check_ranks, num_local_ranks, say_where, timeout_seconds
from io_bench.options import MlperfOptions
from io_bench.ranks import local_ranks
from io_bench.ranks.process_group import ProcessGroup, join_group
from io_bench.request import Request, request_of
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput
from sizing.loading import loading


def mlperf(flags: Mapping[str, object]) -> None:
    """Run the workload that the flags ask for, on all ranks; write and show the figures on rank 0.

    Raises RunEnded where that fails, with the same message on all ranks.
    """
    if flags["--ranks"] is None and not local_ranks.is_launched():
        flags = {**flags, "--ranks": subset_processes()}  # of a closed run on one node
    with contextlib.ExitStack() as stack:
        stack.enter_context(local_ranks.start_ranks(num_local_ranks(flags, MlperfOptions)))
        group = stack.enter_context(join_group(timeout_seconds(flags, MlperfOptions)))
        request = request_of(MlperfOptions, flags, group)
        options = request.options
        group.agree(lambda: check_ranks(options.num_ranks, group), doing="counting the ranks")
        folder = group.agree(lambda: _make_folder(request) if group.rank == 0 else None, doing="checking the output")
        terminal = Terminal(is_speaker=group.rank == 0)
        say_where(request, terminal)
        workload = MlperfWorkload.named(options.model, scale=options.scale or 1.0)
        _measure(request, workload, group, terminal=terminal, folder=folder)


def _make_folder(request: Request[MlperfOptions]) -> Path:
    """Make a folder for the results. Raises InvalidInput where it is there already or cannot be made."""
    name = request.options.output or f"ckpt-bench-mlperf-{request.run_id}"
    folder = Path(name).resolve()
    try:
        folder.mkdir()
    except OSError as error:
        rule = f"must be a folder that can be made ({error.strerror})"
        raise InvalidInput.of("--output", rule, value=name, remedy="choose another path") from error
    return folder


def _measure(
    request: Request[MlperfOptions],
    workload: MlperfWorkload,
    group: ProcessGroup,
    *,
    terminal: Terminal,
    folder: Path | None,
) -> None:
    with loading():
        from io_bench.commands.mlperf.rounds import measure_rounds  # noqa: PLC0415 - as above
        from io_bench.commands.mlperf.summary import (  # noqa: PLC0415 - as above
            figures_of,
            mlperf_sentences,
            mlperf_table,
            summary_of,
            write_files,
        )
        from io_bench.payload.device import Device  # noqa: PLC0415 - as above
        from io_bench.results.environment import environment_of  # noqa: PLC0415 - imports torch: a second

    started_at = datetime.datetime.now(datetime.UTC)
    nodes = environment_of(group, Device.of_local_rank(group.placement.local_rank), request.target)["nodes"]
    rounds = measure_rounds(request, workload, group, terminal)
    if folder is None or rounds is None:
        return
    figures = figures_of(rounds, workload, num_processes=len(rounds.writes[0].ranks))
    ended_at = datetime.datetime.now(datetime.UTC)
    write_files(folder, summary_of(figures, nodes=nodes, started_at=started_at, ended_at=ended_at), figures, workload)
    terminal.show(mlperf_table(figures))
    for sentence in mlperf_sentences(figures):
        terminal.show(sentence)
    terminal.show(f"Results written to {folder}.")
