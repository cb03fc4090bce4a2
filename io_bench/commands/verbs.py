"""The verbs of `ckpt-bench`: they measure, look at a target, at files or at this machine, or serve results."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from io_bench import interruption
from io_bench.commands.flags import Flags, takes
from io_bench.engines import ENGINES
from io_bench.errors import EXIT_FAILED, RunEnded, exit_code_of
from io_bench.interruption import Interrupted
from io_bench.options import CheckOptions, MlperfOptions, RunOptions, ScanOptions
from io_bench.ranks.slurm import torchrun_variables
from io_bench.terminal import WIDTH_WITHOUT_TERMINAL, Terminal
from sizing.errors import EXIT_BAD_INPUT, InvalidInput, SizingError
from sizing.loading import loading
from sizing.storage.measurement import result_schema
from sizing.terminal.program import Version, error_line, program_app

if TYPE_CHECKING:
    from io_bench.checks.verify import Verdict


def end_with(message: str, exit_code: int, *, is_speaker: bool) -> typer.Exit:
    """Say the message, and return the exception that ends the program with this exit code."""
    for line in message.splitlines():
        Terminal(is_speaker=is_speaker).say(error_line(line))
    return typer.Exit(exit_code)


@contextmanager
def refusing() -> Iterator[None]:
    """Turn the errors of a verb that leaves nothing to clean up into one message and the exit code of bad input."""
    try:
        yield
    except SizingError as error:
        raise end_with(str(error), EXIT_BAD_INPUT, is_speaker=True) from None


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Turn the errors of a verb that makes files or starts processes into one message and their exit code.

    A signal ends such a verb once its files and processes are gone.
    """
    interruption.expect()
    try:
        yield
    except RunEnded as end:
        raise end_with(str(end), end.exit_code, is_speaker=end.is_speaker) from None
    except (SizingError, Interrupted) as error:
        # Before the ranks have met, each can only speak for itself.
        cause = interruption.reason_for(error)
        message = f"The program {cause}." if isinstance(cause, Interrupted) else str(cause)
        raise end_with(message, exit_code_of(cause), is_speaker=True) from None


def engines() -> None:
    """List the engines, for --engine."""
    table = Table("engine", "writes", box=box.SIMPLE_HEAD)
    for name, entry in ENGINES.items():
        table.add_row(name, entry.summary)
    Terminal(is_speaker=True).show(table)


@takes(RunOptions)
def run(flags: Flags) -> None:
    """Write a checkpoint from every rank, restore it, repeat, and print the bandwidth.

    On many nodes: srun -N 8 --ntasks-per-node 8 ckpt-bench run --target DIR, or torchrun ... -m io_bench run ...
    """
    with loading():
        from io_bench.commands.run import run as measure_run  # noqa: PLC0415 - help needs the flags alone

    with cleaning_up():
        measure_run(flags)


@takes(ScanOptions)
def scan(flags: Flags) -> None:
    """Find where the storage stops scaling: write and restore with every combination of values, in random order.

    On one machine it starts its ranks itself. On many nodes, start the max of --writers on each node with
    torchrun or srun: srun -N 8 --ntasks-per-node 16 ckpt-bench scan --target DIR
    """
    with loading():
        from io_bench.commands.scan import scan as measure_scan  # noqa: PLC0415 - help needs the flags alone

    with cleaning_up():
        measure_scan(flags)


@takes(MlperfOptions)
def mlperf(flags: Flags) -> None:
    """Run a checkpoint workload of MLPerf Storage: its files, its figures, its summary.json. Comparable, never valid.

    8 processes on one node write what the first 8 of all would (the subset); on many nodes start all with torchrun.
    """
    with loading():
        from io_bench.commands.mlperf.mlperf_run import mlperf as measure_mlperf  # noqa: PLC0415 - help needs the flags alone

    with cleaning_up():
        measure_mlperf(flags)


@takes(CheckOptions)
def check(flags: Flags) -> None:
    """Check by trying whether a target is fit for a run. Exit code 0: yes, 1: with warnings, 2: no.

    Once per node: srun --ntasks-per-node=1 ckpt-bench check --target DIR --ranks 64
    """
    from io_bench.checks.preflight import check_target  # noqa: PLC0415 - the rest needs none of this

    with cleaning_up():
        exit_code = check_target(flags, Terminal(is_speaker=True))
    raise typer.Exit(exit_code)


def clean(
    target: Annotated[
        str, typer.Option(metavar="DIR_OR_URL", help="Directory or URL that was the --target of the killed runs.")
    ],
    run_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Only this run; also one that was run with --keep.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; remove nothing.")] = False,
) -> None:
    """Remove the files that killed runs have left in a target, as listed in their manifests. Running runs are kept."""
    from io_bench.checks.clean import clean_target  # noqa: PLC0415 - the rest needs none of this

    with cleaning_up():
        exit_code = clean_target(target, run_id, Terminal(is_speaker=True), is_dry=dry_run)
    raise typer.Exit(exit_code)


MAX_THREADS = 256
"""Max threads of `verify`. More only wait for each other: a node has one path to its storage, and a disk takes some
tens of requests."""
EXIT_NOT_JUDGED = 3
"""Beside 1 for damage and 2 for bad input, so that a script can tell a doubt from a finding."""
EXIT_CODES: dict[Verdict, int] = {"whole": 0, "damaged": EXIT_FAILED, "not judged": EXIT_NOT_JUDGED}


def verify(
    checkpoint: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of one checkpoint, or one of its files.")],
    checksums: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Checksums that --write-checksums made: compare every byte with them."),
    ] = None,
    write_checksums: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="After a save: write the checksums of all files, if none is damaged."),
    ] = None,
    threads: Annotated[int, typer.Option(metavar="N", help="Threads that read.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Read a whole checkpoint: are all files there, of their size, unchanged where they have checksums? No pickle runs.

    Exit code 0: it is whole, 1: it is damaged, 2: it cannot be verified as asked, 3: a file of it cannot be judged.
    """
    from io_bench.checks.structure import split_readable  # noqa: PLC0415 - as above
    from io_bench.checks.verify import checksums_of, files_of, read_checksums, verification_lines, verify_checkpoint  # noqa: PLC0415 - as above
    from io_bench.results.outputs import ResultFile  # noqa: PLC0415 - as above

    with refusing():
        if not 1 <= threads <= MAX_THREADS:
            rule, remedy = f"must be from 1 to {MAX_THREADS}", "give about as many as there are disks"
            raise InvalidInput.of("--threads", rule, value=threads, remedy=remedy)
        output = ResultFile(write_checksums, flag="--write-checksums") if write_checksums is not None else None
        expected = read_checksums(checksums) if checksums is not None else None
        terminal = Terminal(is_speaker=True)
        root, files = files_of(checkpoint)
        openable, _ = split_readable(files)
        total = sum(file.stat().st_size for file in openable)
        with terminal.bytes_progress("Reading", total) as progress:
            verification = verify_checkpoint(checkpoint, checksums=expected, num_threads=threads, progress=progress)
        if as_json:
            sys.stdout.write(verification.model_dump_json(indent=2) + "\n")
        else:
            for line in verification_lines(verification):
                terminal.show(line)
        if output is not None and verification.verdict != "damaged":
            with terminal.bytes_progress("Checksums", total) as progress:
                document = checksums_of(root, openable, num_threads=threads, progress=progress)
            output.write(document.model_dump_json(indent=1))
            terminal.say(f"Checksums written to {output.path}.")
    if exit_code := EXIT_CODES[verification.verdict]:
        raise typer.Exit(exit_code)


def observe(
    run: Annotated[
        str, typer.Argument(metavar="DIR_OR_URL", help="Folder, or s3://bucket/prefix, that holds a run's checkpoints.")
    ],
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scenario of the run for ckpt-size. Default: what the newest save tells."),
    ] = None,
    write_scenario: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the scenario with what was observed, for ckpt-size FILE.")
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="FILE", help="Write the answer as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Read off the checkpoints of a real run how it saved: interval, rates, stops, growth; no tensor is read.

    Beside it stands what ckpt-size says for the run.
    """
    from io_bench.checks.observation import observe_run  # noqa: PLC0415 - as above
    from io_bench.checks.observation_table import observation_table  # noqa: PLC0415 - as above
    from io_bench.results.outputs import ResultFile  # noqa: PLC0415 - as above
    from sizing.terminal.files import read_document  # noqa: PLC0415 - as above

    with refusing():
        scenario_file = ResultFile(write_scenario, flag="--write-scenario") if write_scenario is not None else None
        answer_file = ResultFile(output) if output is not None else None
        observation = observe_run(run, base=read_document(scenario) if scenario is not None else None)
        text = observation.model_dump_json(indent=2) + "\n"
        terminal = Terminal(is_speaker=True)
        if as_json:
            sys.stdout.write(text)
        else:
            terminal.show(observation_table(observation))
        if answer_file is not None:
            answer_file.write(text)
        if scenario_file is not None:
            if observation.scenario is None:
                rule, remedy = "has nothing to write: the model is not known", "give --scenario FILE with the model"
                raise InvalidInput.of("--write-scenario", rule, value=None, remedy=remedy)
            scenario_file.write(json.dumps(observation.scenario, indent=2) + "\n")
            terminal.say(f"Scenario written: ckpt-size {scenario_file.path}")


def validate() -> None:
    """Train tiny real models for one step, save them, and compare the files with what sizing predicts."""
    from rich.console import Console  # noqa: PLC0415 - the rest needs none of this, and torch takes a second
    from rich.progress import track  # noqa: PLC0415 - as above

    from io_bench.checks.validation.cases import available_cases  # noqa: PLC0415 - as above
    from io_bench.checks.validation.comparison import compare_case, comparison_table, end_ranks  # noqa: PLC0415 - as above

    with cleaning_up(), contextlib.ExitStack() as stack:
        stack.callback(end_ranks)
        files = [
            file
            for case in track(available_cases(), "Saving", console=Console(stderr=True))
            for file in compare_case(case)
        ]
    Console(width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL).print(comparison_table(files))
    if not all(file.agrees for file in files):
        raise typer.Exit(EXIT_FAILED)


def publish(
    to: Annotated[
        str,
        typer.Option(metavar="LINK", help="Storage system of the service: http://HOST:8000/v1/storage-systems/NAME."),
    ],
    results: Annotated[
        list[Path] | None, typer.Argument(metavar="RESULT", help="Result documents of run or scan.")
    ] = None,
    spool: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory where results wait. Default: ~/.local/state/checkpoint-sizing/spool."
        ),
    ] = None,
    patience: Annotated[str, typer.Option(metavar="TIME", help="Max time to retry.")] = "1min",
) -> None:
    """Publish results to the service, together with those that wait in the spool. The token is in CKPT_TOKEN.

    A result is spooled to disk before it is sent, and removed once the service has stored it.
    """
    from io_bench.results.publishing import PublishOptions, publish_files  # noqa: PLC0415 - the rest needs no network

    terminal = Terminal(is_speaker=True)
    with refusing():
        options = PublishOptions.of(**{"--to": to, "--spool": spool, "--patience": patience})
        delivery = publish_files(results or [], options, terminal.say)
    for sentence in delivery.sentences():
        terminal.show(sentence)
    if not delivery.is_complete:
        raise typer.Exit(EXIT_FAILED)


def calibrate(
    results: Annotated[
        list[Path] | None, typer.Argument(metavar="RESULT", help="Result documents of run or scan.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Engine to fit, where the results have several. Default: the most frequent."),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the calibration, for ckpt-size --storage FILE.")
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the scaling curve and the errors: .html, .png, .svg or .json."),
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Suggest the further runs that would improve the calibration.")
    ] = False,
) -> None:
    """Fit the limits of a storage system to results, with intervals and a verdict: which limits were reached."""
    from io_bench.results.calibration import calibrate_files  # noqa: PLC0415 - the rest needs none of this

    terminal = Terminal(is_speaker=True)
    with refusing():
        calibrate_files(results or [], engine=engine, output=output, chart=chart, suggest=suggest, terminal=terminal)


def schema() -> None:
    """Print the JSON Schema of the result document."""
    Terminal(is_speaker=True).show(json.dumps(result_schema(), indent=2))


app = program_app(help="Write and restore real sharded torch checkpoints, and measure how fast the storage is.")

for verb in (check, run, scan, mlperf, engines, clean, calibrate, publish, schema, validate, verify, observe):
    app.command()(verb)


@app.callback()
def ckpt_bench(version: Version = False) -> None:
    """Have ranks that srun has started meet as those of torchrun, whatever the verb."""
    os.environ.update(torchrun_variables(os.environ))
