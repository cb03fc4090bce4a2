"""Flags that several verbs share. They arrive as text; `io_bench.request.options` says what they mean."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from io_bench.shapes.companies import COMPANIES
from io_bench.shapes.restores import RESTORES
from io_bench.shapes.retention import DELETIONS

Target = Annotated[
    str,
    typer.Option(
        metavar="DIR_OR_URL",
        help="Directory, s3://bucket/prefix, or s3+https://HOST/bucket/prefix. A run removes its own files.",
    ),
]
Targets = Annotated[
    str,
    typer.Option(
        metavar="DIR_OR_URL",
        help="Directory, s3://bucket/prefix, or s3+https://HOST/bucket/prefix; several, separated by commas, for "
        "the ranks of a node in turn. A run removes its own files.",
    ),
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
UntilSteady = Annotated[
    bool,
    typer.Option(
        "--until-steady",
        help="Repeat until the bandwidth is kept: over 3 repetitions after its last change, as when a cache is full.",
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
BindNuma = Annotated[
    bool,
    typer.Option("--bind-numa", help="Keep each rank to the CPUs near its GPU. Refused where they are not known."),
]
Timeout = Annotated[str, typer.Option(metavar="TIME", help="Max time until all ranks end after one has died or hangs.")]

_STRIPE_COUNT = "On Lustre: storage targets of a file, -1 for all (lfs setstripe). Default: as the target has it."
_STRIPE_SIZE = "On Lustre: bytes on one target before the next (lfs setstripe). Default: as the target has it."
StripeCount = Annotated[str | None, typer.Option(metavar="N", help=_STRIPE_COUNT)]
StripeCounts = Annotated[str | None, typer.Option(metavar="N,...", help=_STRIPE_COUNT)]
StripeSize = Annotated[str | None, typer.Option(metavar="SIZE", help=_STRIPE_SIZE)]
StripeSizes = Annotated[str | None, typer.Option(metavar="SIZE,...", help=_STRIPE_SIZE)]
TensorsPerRank = Annotated[
    str | None,
    typer.Option(metavar="N", help="Equal tensors in the payload of a rank. Default: those of a model's layers."),
]
Restore = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"How replicas restore what one of them wrote: {', '.join(RESTORES)}. Default: no replicas.",
    ),
]
Replicas = Annotated[
    str | None,
    typer.Option(metavar="N", help="Replicas among the ranks, of which the first writes. Default with --restore: 2."),
]
SavedBy = Annotated[
    str | None,
    typer.Option(metavar="N", help="Ranks that save, to be restored by another number (dcp). Default: all."),
]
RestoredBy = Annotated[
    str | None,
    typer.Option(metavar="N", help="Ranks that restore what another number of them saved (dcp). Default: all."),
]
Retain = Annotated[
    str | None,
    typer.Option(metavar="N", help="Checkpoints that stay while the next is written. Default: 0."),
]
DeletionFlag = Annotated[
    str | None,
    typer.Option(
        "--deletion",
        metavar="NAME",
        help=f"When the oldest is removed: {', '.join(DELETIONS)}. Default with --retain: in-save.",
    ),
]
BesideFlag = Annotated[
    str | None,
    typer.Option(
        "--beside",
        metavar="NAME",
        help="Run beside the saves, and say what each loses: "
        + "; ".join(f"{name} ({entry.summary})" for name, entry in COMPANIES.items())
        + ".",
    ),
]
BatchSize = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Bytes of one batch of --beside batches. Default: 4MiB.")
]


def flags_of(context: typer.Context) -> dict[str, Any]:
    """The flags of a command as they were spelled, with their values."""
    return {f"--{name.replace('_', '-')}": value for name, value in context.params.items()}
