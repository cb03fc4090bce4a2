"""The measuring part of a workload: planned and checked before the clock, then run on all ranks."""

from __future__ import annotations

from io_bench.engines import EngineOptions
from io_bench.mlperf.part_files import PartFiles
from io_bench.mlperf.rounds import Rounds, files_of, rounds
from io_bench.mlperf.workload import MlperfWorkload
from io_bench.planning.capacity import check_room
from io_bench.planning.configuration import Configuration
from io_bench.planning.plan import Plan, plan_of
from io_bench.ranks.process_group import ProcessGroup
from io_bench.request.agreed_request import Request
from io_bench.request.options import MlperfOptions
from io_bench.target.directory.directory_target import DirectoryTarget
from io_bench.target.lifecycle import run_place
from io_bench.terminal import Terminal
from sizing.units import bytes_text


def measured_rounds(
    request: Request[MlperfOptions], workload: MlperfWorkload, group: ProcessGroup, terminal: Terminal
) -> Rounds | None:
    """The saves and restores of a workload, on all ranks; on rank 0 what was timed.

    Raises InvalidInput where they cannot fit, RunFailed where they fail.
    """
    options, engine, target = request.options, PartFiles(EngineOptions()), request.target
    plan = plan_of(_configuration(group), workload, engine, target, group)
    group.agree(lambda: check_room(plan, target), doing="checking free space")
    all_bytes = options.num_checkpoints * plan.max_disk_bytes
    group.agree(lambda: target.check_space(all_bytes), doing="checking free space")
    terminal.say(_needs(plan, num_checkpoints=options.num_checkpoints, all_bytes=all_bytes))
    with (
        terminal.progress(2 * options.num_checkpoints) as progress,
        run_place.opened(
            target,
            group,
            run_id=request.run_id,
            files_of=files_of(plan, options.num_checkpoints),
            keep=options.keep,
        ) as files,
    ):
        found = rounds(
            plan,
            engine,
            files,
            directory=target.path if isinstance(target, DirectoryTarget) else None,
            seed=request.seed,
            num_checkpoints=options.num_checkpoints,
            progress=progress,
        )
    if options.keep:
        terminal.say(f"The checkpoints are kept in {target.run_title(request.run_id)}.")
    return found


def _needs(plan: Plan, *, num_checkpoints: int, all_bytes: int) -> str:
    return f"{plan.needs()} All {num_checkpoints} checkpoints are there at once: {bytes_text(all_bytes)}."


def _configuration(group: ProcessGroup) -> Configuration:
    """All ranks on all nodes."""
    nodes = [placement.node for placement in group.placements]
    return Configuration(
        engine=PartFiles.name,
        num_nodes=len(group.nodes),
        writers_per_node=max(nodes.count(node) for node in group.nodes),
    )
