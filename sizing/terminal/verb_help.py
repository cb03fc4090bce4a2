"""The help of a command with many flags: those that matter, and all of them with `--help-all`."""

from __future__ import annotations

import copy
from collections.abc import Collection
from itertools import zip_longest
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand

HELP_ALL = "--help-all"
YES_OR_NO = "YES/NO"
"""Metavar of a flag that takes yes or no."""


class FewFlags:
    """A command whose help leaves out the flags that its function has as `further`, and says how many they are.

    Where there are none, `--help-all` is left out of it as well.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params: list[Any]
        self.params.append(_help_all_option())

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help; all flags where the words ask for all."""
        further: Collection[str] = getattr(ctx.command.callback, "further", ())
        left_out = () if ctx.meta.get(HELP_ALL) else further or ("help_all",)
        shown: Any = copy.copy(self)
        shown.params = [copy.copy(parameter) for parameter in self.params]
        for parameter in shown.params:
            if parameter.name in left_out:
                parameter.hidden = True
        if further and left_out:
            shown.epilog = f"{len(further)} more flags: {ctx.command_path} {HELP_ALL}"
        super(FewFlags, shown).format_help(ctx, formatter)  # type: ignore[misc]  # a command of typer comes after it


class Verb(FewFlags, TyperCommand):
    """A verb of a program."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words. A flag that takes yes or no means yes if no value follows it, as it does for trainers."""
        of_yes_or_no = {name for each in self.params if each.metavar == YES_OR_NO for name in each.opts}
        words = list[str]()
        for word, following in zip_longest(args, args[1:], fillvalue="-"):
            words += [word, "yes"] if word in of_yes_or_no and following.startswith("-") else [word]
        return super().parse_args(ctx, words)


def _show_all(context: typer.Context, *, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        context.meta[HELP_ALL] = True
        typer.echo(context.get_help(), color=context.color)
        raise typer.Exit


_HelpAll = Annotated[
    bool,
    typer.Option(HELP_ALL, help="Show every flag and exit.", callback=_show_all, is_eager=True, expose_value=False),
]


def _help_all_option() -> Any:
    """Make the option as typer makes those of functions."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def verb(help_all: _HelpAll = False) -> None:
        pass

    return typer.main.get_command(app).params[0]
