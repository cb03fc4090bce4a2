"""`ckpt-bench`: the command line of the agent.

Exit code 0 for a result, 2 for input that cannot be run, 1 for a run that failed, 128 + signal for one that
was interrupted. Flags arrive as text; `io_bench.options` says what they mean.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from io_bench import interruption
from io_bench.campaign.run import run as measure_run
from io_bench.campaign.scan import scan as measure_scan
from io_bench.engine_table import engine_table
from io_bench.engines import ENGINES
from io_bench.errors import EXIT_FAILED, RunEnded, RunFailed, exit_code_of
from io_bench.options import DEFAULT_ENGINE, DEFAULT_SCAN_ENGINE, DEFAULT_TIMEOUT
from io_bench.slurm import torchrun_variables
from io_bench.terminal import WIDTH_WITHOUT_TERMINAL, Terminal
from sizing.errors import EXIT_BAD_INPUT, SizingError
from sizing.storage.result_schema import result_schema

_Target = Annotated[
    str, typer.Option(metavar="DIR_OR_URL", help="Directory, or s3://bucket/prefix. Left as it was found.")
]
_Scenario = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write what the ranks of this scenario of ckpt-size write.")
]
_Scale = Annotated[
    str | None, typer.Option(metavar="X", help="Scale of the scenario's tensors, up to 1.  [default: 1]")
]
_MaxSeconds = Annotated[
    str | None, typer.Option(metavar="TIME", help="Begin no repetition that would end later; repeat until then.")
]
_MaxBytes = Annotated[str | None, typer.Option(metavar="SIZE", help="Write and read no more than this in all.")]
_MaxBandwidth = Annotated[
    str | None, typer.Option(metavar="RATE", help="Mean over the run: the ranks pause between repetitions.")
]
_Output = Annotated[
    str | None, typer.Option(metavar="FILE", help="Result document.  [default: ckpt-bench-RUN_ID.json]")
]
_Csv = Annotated[str | None, typer.Option(metavar="FILE", help="The measurements as a table, too.")]
_Seed = Annotated[str | None, typer.Option(metavar="N", help="Seed of the payload.  [default: a new one]")]
_Publish = Annotated[
    str | None, typer.Option(metavar="LINK", help="Send the result to this storage system of the service.")
]
_Timeout = Annotated[str, typer.Option(metavar="TIME", help="Within this all ranks end, should one die or hang.")]

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.callback()
def ckpt_bench() -> None:
    """Write and restore real sharded torch checkpoints, and measure how fast the storage is."""


@app.command()
def run(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Option(metavar="DIR_OR_URL", help="Directory or s3://bucket/prefix to measure. Left as it was found."),
    ],
    engine: Annotated[str, typer.Option(metavar="NAME", help=f"How to write: {', '.join(ENGINES)}.")] = DEFAULT_ENGINE,
    bytes_per_rank: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Payload of each rank, 14 bytes per parameter.  [default: 256MiB]"),
    ] = None,
    scenario: _Scenario = None,
    scale: _Scale = None,
    block_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Size of one request, where the engine leaves it open.")
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N", help="Threads per rank that move data, where the engine leaves it open.")
    ] = None,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Make the payload while it is written; done anyway where memory cannot hold it."),
    ] = False,
    repetitions: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Repetitions that count, after one that warms up.  "
            "[default: 5 or more, until the rates are known to 5 % or 5 minutes are over]",
        ),
    ] = None,
    max_seconds: _MaxSeconds = None,
    max_bytes: _MaxBytes = None,
    max_bandwidth: _MaxBandwidth = None,
    output: _Output = None,
    csv: _Csv = None,
    seed: _Seed = None,
    timeout: _Timeout = DEFAULT_TIMEOUT,
    ranks: Annotated[
        str | None,
        typer.Option(metavar="N", help="Ranks to start on this machine.  [default: those that were launched, or 1]"),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the last checkpoint, and say where.")] = False,
    publish: _Publish = None,
) -> None:
    """Write a checkpoint from every rank and restore it, several times, and print the rates.

    On many nodes: srun -N 8 --ntasks-per-node 8 ckpt-bench run --target DIR, or torchrun ... -m io_bench run ...
    """
    _measure(measure_run, context)


def _measure(measure: Callable[[Mapping[str, object]], None], context: typer.Context) -> None:
    """Run a campaign by the flags of the command, and end as it ends."""
    flags = {f"--{name.replace('_', '-')}": value for name, value in context.params.items()}
    interruption.expect()
    try:
        measure(flags)
    except RunEnded as end:
        raise _exit(str(end), end.exit_code, is_speaker=end.is_speaker) from None
    except (SizingError, interruption.Interrupted) as error:
        # Before the ranks have met, each can only speak for itself.
        raise _exit(str(error), exit_code_of(error), is_speaker=True) from None


@app.command("publish")
def publish_verb(
    to: Annotated[
        str, typer.Option(metavar="LINK", help="The storage system: http://HOST:8000/v1/storage-systems/NAME.")
    ],
    results: Annotated[list[Path] | None, typer.Argument(metavar="[RESULT]...", help="Results of runs.")] = None,
    spool: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results wait.  [default: ~/.local/state/checkpoint-sizing/spool]"),
    ] = None,
    patience: Annotated[str, typer.Option(metavar="TIME", help="How long to try.")] = "1min",
) -> None:
    """Publish results to the service, and whatever waits in the spool for it. The token is in CKPT_TOKEN.

    A result is spooled to disk before it is sent and removed once the service keeps it, so none is lost or doubled.
    """
    from io_bench.publishing.command import PublishOptions, publish_files  # noqa: PLC0415 - the rest needs no network

    terminal = Terminal(is_speaker=True)
    try:
        options = PublishOptions.of(**{"--to": to, "--spool": spool, "--patience": patience})
        delivery = publish_files(results or [], options, terminal.say)
    except SizingError as error:
        raise _exit(str(error), EXIT_BAD_INPUT, is_speaker=True) from None
    for sentence in delivery.sentences():
        terminal.show(sentence)
    if not delivery.is_complete:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def scan(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Option(metavar="DIR_OR_URL", help="Directory or s3://bucket/prefix to measure. Left as it was found."),
    ],
    engine: Annotated[
        str, typer.Option(metavar="NAME,...", help="Ways to write; with `direct` among them, what each format costs.")
    ] = DEFAULT_SCAN_ENGINE,
    writers: Annotated[
        str | None,
        typer.Option(metavar="N,...", help="Ranks per node that write at once.  [default: 1,2,4,8,16 as there are]"),
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(metavar="N,...", help="Nodes that write at once.  [default: 1,2,4,... as there are]")
    ] = None,
    bytes_per_rank: Annotated[
        str | None, typer.Option(metavar="SIZE,...", help="Payload of each rank.  [default: 256MiB]")
    ] = None,
    block_size: Annotated[
        str | None, typer.Option(metavar="SIZE,...", help="Size of one request, where the engine leaves it open.")
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="N,...", help="Threads per rank, where the engine leaves it open.")
    ] = None,
    scenario: _Scenario = None,
    scale: _Scale = None,
    repetitions: Annotated[
        str | None, typer.Option(metavar="N", help="Repetitions of each that count, after one that warms up.")
    ] = "5",
    max_seconds: _MaxSeconds = None,
    max_bytes: _MaxBytes = None,
    max_bandwidth: _MaxBandwidth = None,
    output: _Output = None,
    csv: _Csv = None,
    chart: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Chart of it: .html, .png or .svg. May be given again.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished scan of that --output.")] = False,
    seed: _Seed = None,
    timeout: _Timeout = DEFAULT_TIMEOUT,
    publish: _Publish = None,
) -> None:
    """Find where the storage stops scaling: write and restore with every combination of what is varied, shuffled.

    Alone it starts the ranks that it needs on this machine. On many nodes start as many ranks on each as
    --writers has at most, with torchrun or srun: srun -N 8 --ntasks-per-node 16 ckpt-bench scan --target DIR
    """
    _measure(measure_scan, context)


@app.command()
def check(
    target: _Target,
    bytes_per_rank: Annotated[str, typer.Option(metavar="SIZE", help="What each rank is to write.")] = "256MiB",
    ranks: Annotated[
        str | None, typer.Option(metavar="N", help="How many ranks write.  [default: those that were launched, or 1]")
    ] = None,
) -> None:
    """Look whether a target is fit for a run, by trying: 0 if so, 1 with warnings, 2 if a run cannot be.

    Once per node: srun --ntasks-per-node=1 ckpt-bench check --target DIR --ranks 64
    """
    from io_bench.preflight.check import checked  # noqa: PLC0415 - the rest needs none of this

    interruption.expect()
    try:
        exit_code = checked(target, bytes_per_rank, ranks, Terminal(is_speaker=True))
    except (SizingError, interruption.Interrupted) as error:
        raise _exit(str(error), exit_code_of(error), is_speaker=True) from None
    raise typer.Exit(exit_code)


@app.command()
def clean(
    target: Annotated[str, typer.Option(metavar="DIR_OR_URL", help="Where runs were killed.")],
    run_id: Annotated[
        str | None, typer.Option(metavar="ID", help="This run alone; also one whose checkpoint was kept.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and change nothing.")] = False,
) -> None:
    """Remove what killed runs have left in a target, file by file as their manifests say; never a running one's."""
    from io_bench.cleaning.clean import cleaned  # noqa: PLC0415 - the rest needs none of this

    interruption.expect()
    try:
        exit_code = cleaned(target, run_id, Terminal(is_speaker=True), is_dry=dry_run)
    except (SizingError, interruption.Interrupted) as error:
        raise _exit(str(error), exit_code_of(error), is_speaker=True) from None
    raise typer.Exit(exit_code)


@app.command()
def engines() -> None:
    """List the ways to write a checkpoint, for --engine."""
    Terminal(is_speaker=True).show(engine_table())


@app.command()
def calibrate(
    results: Annotated[list[Path] | None, typer.Argument(metavar="RESULT...", help="Results of run or scan.")] = None,
    engine: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of several engines this one.  [default: the one most used]")
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="FILE", help="Calibration document, for ckpt-size --storage FILE.")
    ] = None,
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Scaling curve and misses: .html, .png, .svg or .json.")
    ] = None,
    suggest: Annotated[bool, typer.Option("--suggest", help="Say which further runs would tell most.")] = False,
) -> None:
    """Fit the limits of a storage system to results, with intervals, and say which of them were really seen."""
    from io_bench.calibration.command import calibrate_files  # noqa: PLC0415 - the rest needs none of this

    terminal = Terminal(is_speaker=True)
    try:
        calibrate_files(results or [], engine=engine, output=output, chart=chart, suggest=suggest, terminal=terminal)
    except SizingError as error:
        raise _exit(str(error), EXIT_BAD_INPUT, is_speaker=True) from None


@app.command()
def schema() -> None:
    """Print the JSON Schema of the result document."""
    Terminal(is_speaker=True).show(json.dumps(result_schema(), indent=2))


@app.command()
def validate() -> None:
    """Train tiny real models for one step, save them, and compare the files with what sizing predicts."""
    from rich.console import Console  # noqa: PLC0415 - the rest needs none of this, and torch takes a second
    from rich.progress import track  # noqa: PLC0415

    from io_bench.validation.cases import available_cases  # noqa: PLC0415
    from io_bench.validation.comparison import compared, comparison_table  # noqa: PLC0415

    try:
        files = [
            file for case in track(available_cases(), "Saving", console=Console(stderr=True)) for file in compared(case)
        ]
    except RunFailed as error:
        raise _exit(str(error), EXIT_FAILED, is_speaker=True) from None
    Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL).print(comparison_table(files))
    if not all(file.agrees for file in files):
        raise typer.Exit(EXIT_FAILED)


def main(arguments: list[str] | None = None) -> NoReturn:
    """The entry point: reads `arguments`, or those of the process. Raises SystemExit with the exit code."""
    os.environ.update(torchrun_variables(os.environ))
    app(arguments, prog_name="ckpt-bench")
    raise SystemExit(0)


def _exit(message: str, exit_code: int, *, is_speaker: bool) -> typer.Exit:
    Terminal(is_speaker=is_speaker).say(message)
    return typer.Exit(exit_code)
