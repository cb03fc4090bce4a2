"""The verbs about a target: whether it is fit for a run, and what killed runs have left there."""

from __future__ import annotations

from typing import Annotated

import typer

from io_bench import interruption
from io_bench.cli.exits import ended
from io_bench.cli.flags import Scale, Scenario, Target, flags_of
from io_bench.errors import exit_code_of
from io_bench.terminal import Terminal
from sizing.errors import SizingError


def check(
    context: typer.Context,
    target: Target,
    bytes_per_rank: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Payload of each rank. Default: 256MiB.")
    ] = None,
    scenario: Scenario = None,
    scale: Scale = None,
    ranks: Annotated[
        str | None, typer.Option(metavar="N", help="Ranks that write. Default: the ranks that were launched, or 1.")
    ] = None,
) -> None:
    """Check by trying whether a target is fit for a run. Exit code 0: yes, 1: with warnings, 2: no.

    Once per node: srun --ntasks-per-node=1 ckpt-bench check --target DIR --ranks 64
    """
    from io_bench.preflight.check import checked  # noqa: PLC0415 - the rest needs none of this

    interruption.expect()
    try:
        exit_code = checked(flags_of(context), Terminal(is_speaker=True))
    except (SizingError, interruption.Interrupted) as error:
        raise ended(str(error), exit_code_of(error), is_speaker=True) from None
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
    from io_bench.cleaning.clean import cleaned  # noqa: PLC0415 - the rest needs none of this

    interruption.expect()
    try:
        exit_code = cleaned(target, run_id, Terminal(is_speaker=True), is_dry=dry_run)
    except (SizingError, interruption.Interrupted) as error:
        raise ended(str(error), exit_code_of(error), is_speaker=True) from None
    raise typer.Exit(exit_code)
