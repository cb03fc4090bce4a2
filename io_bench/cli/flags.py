"""Flags that several verbs share. They arrive as text; `io_bench.request.options` says what they mean."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Target = Annotated[
    str,
    typer.Option(metavar="DIR_OR_URL", help="Directory, or s3://bucket/prefix. A run removes its own files."),
]
Scenario = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Scenario of ckpt-size. Each rank writes the tensors of a rank of the scenario."),
]
Scale = Annotated[
    str | None, typer.Option(metavar="X", help="Fraction of each tensor of --scenario, max 1. Default: 1.")
]
MaxSeconds = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Max time of the run: repeat until then, and start no repetition that would end later."
    ),
]
MaxBytes = Annotated[str | None, typer.Option(metavar="SIZE", help="Max bytes written and read in total.")]
MaxBandwidth = Annotated[
    str | None, typer.Option(metavar="RATE", help="Max mean bandwidth of the run: the ranks pause between repetitions.")
]
Output = Annotated[str | None, typer.Option(metavar="FILE", help="Result document. Default: ckpt-bench-RUN_ID.json.")]
Csv = Annotated[str | None, typer.Option(metavar="FILE", help="Also write the measurements as CSV.")]
Seed = Annotated[str | None, typer.Option(metavar="N", help="Seed of the payload. Default: random.")]
Publish = Annotated[
    str | None, typer.Option(metavar="LINK", help="Send the result to this storage system of the service.")
]
Timeout = Annotated[str, typer.Option(metavar="TIME", help="Max time until all ranks end after one has died or hangs.")]


def flags_of(context: typer.Context) -> dict[str, Any]:
    """The flags of a command as they were spelled, with their values."""
    return {f"--{name.replace('_', '-')}": value for name, value in context.params.items()}
