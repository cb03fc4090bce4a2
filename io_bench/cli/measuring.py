"""The verbs that measure: the ways to write, one configuration, or many."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from io_bench import interruption
from io_bench.campaign.run import run as measure_run
from io_bench.campaign.scan import scan as measure_scan
from io_bench.cli.exits import ended
from io_bench.cli.flags import (
    BatchSize,
    BesideFlag,
    BindNuma,
    Csv,
    DeletionFlag,
    MaxBandwidth,
    MaxBytes,
    MaxSeconds,
    Output,
    Publish,
    Replicas,
    Restore,
    RestoredBy,
    Retain,
    SavedBy,
    Scale,
    Scenario,
    Seed,
    StripeCount,
    StripeCounts,
    StripeSize,
    StripeSizes,
    Target,
    Targets,
    TensorsPerRank,
    Timeout,
    UntilSteady,
    flags_of,
)
from io_bench.engines import ENGINES
from io_bench.errors import RunEnded, exit_code_of
from io_bench.mlperf.mlperf_run import mlperf as measure_mlperf
from io_bench.mlperf.workload import NAMES
from io_bench.request.options import DEFAULT_ENGINE, DEFAULT_TIMEOUT
from io_bench.terminal import Terminal
from sizing.errors import SizingError


def engines() -> None:
    """List the engines, for --engine."""
    table = Table("engine", "writes", box=box.SIMPLE_HEAD)
    for name, entry in ENGINES.items():
        table.add_row(name, entry.summary)
    Terminal(is_speaker=True).show(table)


def run(
    context: typer.Context,
    target: Targets,
    engine: Annotated[str, typer.Option(metavar="NAME", help=f"Engine: {', '.join(ENGINES)}.")] = DEFAULT_ENGINE,
    bytes_per_rank: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Payload of each rank. Default: 256MiB or more, so that a write takes 5 s."),
    ] = None,
    scenario: Scenario = None,
    scale: Scale = None,
    block_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Size of one request, for engines where it can be set.")
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="I/O threads per rank, for engines where it can be set.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Generate the payload during the write; automatic where memory cannot hold it."),
    ] = False,
    repetitions: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Repetitions after the warm-up. "
            "Default: min 5, until the bandwidth is accurate to 5 % or 5 minutes are over.",
        ),
    ] = None,
    until_steady: UntilSteady = False,
    max_seconds: MaxSeconds = None,
    max_bytes: MaxBytes = None,
    max_bandwidth: MaxBandwidth = None,
    output: Output = None,
    csv: Csv = None,
    seed: Seed = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    bind_numa: BindNuma = False,
    ranks: Annotated[
        str | None,
        typer.Option(metavar="N", help="Ranks to start on this machine. Default: the ranks that were launched, or 1."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the last checkpoint and print its path.")] = False,
    stripe_count: StripeCount = None,
    stripe_size: StripeSize = None,
    tensors_per_rank: TensorsPerRank = None,
    restore: Restore = None,
    replicas: Replicas = None,
    saved_by: SavedBy = None,
    restored_by: RestoredBy = None,
    retain: Retain = None,
    deletion: DeletionFlag = None,
    beside: BesideFlag = None,
    batch_size: BatchSize = None,
    publish: Publish = None,
) -> None:
    """Write a checkpoint from every rank, restore it, repeat, and print the bandwidth.

    On many nodes: srun -N 8 --ntasks-per-node 8 ckpt-bench run --target DIR, or torchrun ... -m io_bench run ...
    """
    _measure(measure_run, context)


def scan(
    context: typer.Context,
    target: Targets,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Engines; with direct among them, the table has the software tax of the others."
        ),
    ] = DEFAULT_ENGINE,
    writers: Annotated[
        str | None,
        typer.Option(
            metavar="N,...", help="Ranks per node that write at once. Default: 1,2,4,8,16, up to the ranks per node."
        ),
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(metavar="N,...", help="Nodes that write at once. Default: 1,2,4,... up to all.")
    ] = None,
    bytes_per_rank: Annotated[
        str | None, typer.Option(metavar="SIZE,...", help="Payload of each rank. Default: 256MiB.")
    ] = None,
    block_size: Annotated[
        str | None, typer.Option(metavar="SIZE,...", help="Size of one request, for engines where it can be set.")
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N,...", help="I/O threads per rank, for engines where it can be set.")
    ] = None,
    stripe_count: StripeCounts = None,
    stripe_size: StripeSizes = None,
    scenario: Scenario = None,
    scale: Scale = None,
    repetitions: Annotated[
        str | None, typer.Option(metavar="N", help="Repetitions of each configuration after the warm-up.")
    ] = "5",
    until_steady: UntilSteady = False,
    max_seconds: MaxSeconds = None,
    max_bytes: MaxBytes = None,
    max_bandwidth: MaxBandwidth = None,
    output: Output = None,
    csv: Csv = None,
    chart: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Chart of the scan: .html, .png or .svg. May be repeated.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the unfinished scan of this --output.")] = False,
    seed: Seed = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    bind_numa: BindNuma = False,
    publish: Publish = None,
) -> None:
    """Find where the storage stops scaling: write and restore with every combination of values, in random order.

    On one machine it starts its ranks itself. On many nodes, start the max of --writers on each node with
    torchrun or srun: srun -N 8 --ntasks-per-node 16 ckpt-bench scan --target DIR
    """
    _measure(measure_scan, context)


def mlperf(
    context: typer.Context,
    target: Target,
    model: Annotated[str, typer.Option(metavar="NAME", help=f"Workload: {', '.join(NAMES)}.")],
    ranks: Annotated[
        str | None,
        typer.Option(metavar="N", help="Processes to start on this machine. Default: those launched, or 8."),
    ] = None,
    checkpoints: Annotated[
        str, typer.Option(metavar="N", help="Checkpoints to write, then to read; all are there at once.")
    ] = "10",
    scale: Annotated[
        str | None, typer.Option(metavar="X", help="Fraction of each tensor, max 1: to try out. Default: 1.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder of results. Default: ckpt-bench-mlperf-RUN_ID.")
    ] = None,
    seed: Seed = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the checkpoints and print their path.")] = False,
) -> None:
    """Run a checkpoint workload of MLPerf Storage: its files, its figures, its summary.json. Comparable, never valid.

    8 processes on one node write what the first 8 of all would (the subset); on many nodes start all with torchrun.
    """
    _measure(measure_mlperf, context)


def _measure(measure: Callable[[Mapping[str, object]], None], context: typer.Context) -> None:
    """Run a campaign by the flags of the command, and end as it ends."""
    interruption.expect()
    try:
        measure(flags_of(context))
    except RunEnded as end:
        raise ended(str(end), end.exit_code, is_speaker=end.is_speaker) from None
    except (SizingError, interruption.Interrupted) as error:
        # Before the ranks have met, each can only speak for itself.
        raise ended(str(error), exit_code_of(error), is_speaker=True) from None
