"""Flags that several verbs share. They arrive as text; `io_bench.request.options` says what they mean."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Target = Annotated[
    str, typer.Option(metavar="DIR_OR_URL", help="Directory, or s3://bucket/prefix. Left as it was found.")
]
Scenario = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write what the ranks of this scenario of ckpt-size write.")
]
Scale = Annotated[str | None, typer.Option(metavar="X", help="Scale of the scenario's tensors, up to 1. Default: 1.")]
MaxSeconds = Annotated[
    str | None, typer.Option(metavar="TIME", help="Begin no repetition that would end later; repeat until then.")
]
MaxBytes = Annotated[str | None, typer.Option(metavar="SIZE", help="Write and read no more than this in all.")]
MaxBandwidth = Annotated[
    str | None, typer.Option(metavar="RATE", help="Mean over the run: the ranks pause between repetitions.")
]
Output = Annotated[str | None, typer.Option(metavar="FILE", help="Result document. Default: ckpt-bench-RUN_ID.json.")]
Csv = Annotated[str | None, typer.Option(metavar="FILE", help="The measurements as a table, too.")]
Seed = Annotated[str | None, typer.Option(metavar="N", help="Seed of the payload. Default: a new one.")]
Publish = Annotated[
    str | None, typer.Option(metavar="LINK", help="Send the result to this storage system of the service.")
]
Timeout = Annotated[str, typer.Option(metavar="TIME", help="Within this all ranks end, should one die or hang.")]


def flags_of(context: typer.Context) -> dict[str, Any]:
    """The flags of a command as they were spelled, with their values."""
    return {f"--{name.replace('_', '-')}": value for name, value in context.params.items()}
