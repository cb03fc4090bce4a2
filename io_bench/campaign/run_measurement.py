"""The measuring part of a run: one configuration on all ranks, and its result."""

from __future__ import annotations

import datetime
import sys

from io_bench.campaign.campaign import Campaign, repeat_of
from io_bench.planning.configuration import Configuration
from io_bench.ranks.process_group import ProcessGroup
from io_bench.request.agreed_request import Request
from io_bench.request.options import RunOptions
from io_bench.target.lifecycle import run_place
from io_bench.terminal import Terminal
from sizing.storage.measurement import BenchmarkResult


def measured_result(request: Request[RunOptions], group: ProcessGroup, terminal: Terminal) -> BenchmarkResult:
    """The result of a request, on all ranks; rank 0's has the warnings of all.

    Raises InvalidInput where the run cannot fit, RunFailed where it fails.
    """
    started_at = datetime.datetime.now(datetime.UTC)
    campaign, options = Campaign.of(request, group), request.options
    planned = campaign.planned(_configuration(options, group))
    terminal.say(planned.plan.needs())
    repeat = repeat_of(options)
    with (
        terminal.progress(2 * (repeat.min_repetitions + 1)) as progress,
        run_place.opened(
            request.target,
            group,
            run_id=request.run_id,
            files_of_rank=planned.plan.files_of_rank,
            keep=options.keep,
        ) as files,
    ):
        measured = campaign.measured(planned, files, repeat=repeat, progress=progress)
    if options.keep:
        terminal.say(f"The last checkpoint is kept in {campaign.place}.")
    return BenchmarkResult(
        run_id=request.run_id,
        started_at=started_at,
        command=sys.orig_argv,
        environment={
            **campaign.environment,
            **measured.conditions,
            "kept_in": campaign.place if options.keep else None,
        },
        warnings=group.ending.notes + measured.warnings,
        measurements=measured.measurements,
    )


def _configuration(options: RunOptions, group: ProcessGroup) -> Configuration:
    """All ranks on all nodes."""
    nodes = [placement.node for placement in group.placements]
    return Configuration(
        engine=options.engine,
        num_nodes=len(group.nodes),
        writers_per_node=max(nodes.count(node) for node in group.nodes),
        bytes_per_rank=options.bytes_per_rank,
        block_bytes=options.block_bytes,
        threads_per_rank=options.threads_per_rank,
        is_streamed=options.stream,
    )
