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
        str | None, typer.Option(metavar="SIZE", help="What each rank is to write. Default: 256MiB.")
    ] = None,
    scenario: Scenario = None,
    scale: Scale = None,
    ranks: Annotated[
        str | None, typer.Option(metavar="N", help="How many ranks write. Default: those that were launched, or 1.")
    ] = None,
) -> None:
    """Look whether a target is fit for a run, by trying: 0 if so, 1 with warnings, 2 if a run cannot be.

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
        raise ended(str(error), exit_code_of(error), is_speaker=True) from None
    raise typer.Exit(exit_code)
