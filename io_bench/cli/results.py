"""The verbs about results: publish them, calibrate with them, read their schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from io_bench.cli.exits import ended
from io_bench.errors import EXIT_FAILED
from io_bench.terminal import Terminal
from sizing.errors import EXIT_BAD_INPUT, SizingError
from sizing.storage.result_schema import result_schema


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
    from io_bench.publishing.publish import PublishOptions, publish_files  # noqa: PLC0415 - the rest needs no network

    terminal = Terminal(is_speaker=True)
    try:
        options = PublishOptions.of(**{"--to": to, "--spool": spool, "--patience": patience})
        delivery = publish_files(results or [], options, terminal.say)
    except SizingError as error:
        raise ended(str(error), EXIT_BAD_INPUT, is_speaker=True) from None
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
    from io_bench.calibration.calibrate import calibrate_files  # noqa: PLC0415 - the rest needs none of this

    terminal = Terminal(is_speaker=True)
    try:
        calibrate_files(results or [], engine=engine, output=output, chart=chart, suggest=suggest, terminal=terminal)
    except SizingError as error:
        raise ended(str(error), EXIT_BAD_INPUT, is_speaker=True) from None


def schema() -> None:
    """Print the JSON Schema of the result document."""
    Terminal(is_speaker=True).show(json.dumps(result_schema(), indent=2))
