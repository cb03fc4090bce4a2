"""The help of a verb with many flags: those that matter, and all of them with `--help-all`."""

from __future__ import annotations

import copy
from collections.abc import Collection
from itertools import zip_longest
from typing import Any

import typer
from typer.core import TyperCommand

HELP_ALL = "--help-all"
YES_OR_NO = "YES/NO"
"""Metavar of a flag that takes yes or no."""


class VerbWithManyFlags(TyperCommand):
    """A verb whose help leaves out the parameters that its function has as `further`, and says how many they are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words. A flag that takes yes or no means yes if no value follows it, as it does for trainers."""
        of_yes_or_no = {name for each in self.params if each.metavar == YES_OR_NO for name in each.opts}
        words = list[str]()
        for word, following in zip_longest(args, args[1:], fillvalue="-"):
            words += [word, "yes"] if word in of_yes_or_no and following.startswith("-") else [word]
        return super().parse_args(ctx, words)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; all flags where the words ask for all."""
        shown = copy.copy(self)
        shown.params = [copy.copy(parameter) for parameter in self.params]
        further: Collection[str] = () if ctx.meta.get(HELP_ALL) else getattr(self.callback, "further", ())
        rare = [parameter for parameter in shown.params if parameter.name in further]
        for parameter in rare:
            parameter.hidden = True  # type: ignore[attr-defined]  # all but vendored base classes have it
        if rare:
            shown.epilog = f"{len(rare)} more flags: {ctx.command_path} {HELP_ALL}"
        super(VerbWithManyFlags, shown).format_help(ctx, formatter)


def help_all_option() -> Any:
    """Make the option that prints the help with all flags."""

    def show(context: typer.Context, *, is_given: bool) -> None:
        if is_given and not context.resilient_parsing:
            context.meta[HELP_ALL] = True
            typer.echo(context.get_help(), color=context.color)
            raise typer.Exit

    return typer.Option(
        False, HELP_ALL, help="Show every flag and exit.", callback=show, is_eager=True, expose_value=False
    )
