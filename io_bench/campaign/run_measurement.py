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


def measured_result(request: Request[RunOptions], group: ProcessGroup, terminal: Terminal) -> BenchmarkResult | None:
    """The result of a request, on rank 0, with the warnings of all.

    Raises InvalidInput where the run cannot fit, RunFailed where it fails.
    """
    started_at = datetime.datetime.now(datetime.UTC)
    campaign, options = Campaign.of(request, group), request.options
    planned = campaign.planned(_configuration(options, group))
    terminal.say(planned.plan.needs())
    repeat = repeat_of(options)
    is_size_open = options.bytes_per_rank is None and options.scenario is None
    with (
        terminal.progress(2 * (repeat.min_repetitions + 1 + is_size_open)) as progress,
        run_place.opened(
            request.target,
            group,
            run_id=request.run_id,
            files_of=planned.plan.files_of,
            keep=options.keep,
        ) as files,
    ):
        if is_size_open:
            planned = campaign.enough(planned, files, progress=progress)
            terminal.say(f"A first write and restore set the size. {planned.plan.needs()}")
        measured = campaign.measured(planned, files, repeat=repeat, progress=progress)
    if measured is None:
        return None
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
        corruption=measured.corruption or None,
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
        stripe_count=options.stripe_count,
        stripe_bytes=options.stripe_bytes,
        tensors_per_rank=options.tensors_per_rank,
        num_saving=options.saved_by or (len(nodes) if options.restored_by else None),
        num_restoring=options.restored_by or (len(nodes) if options.saved_by else None),
        restore=options.restore,
        num_replicas=options.num_replicas,
        retained_checkpoints=options.retain,
        deletion=options.deletion,
        beside=options.beside,
        batch_bytes=options.batch_bytes,
    )
