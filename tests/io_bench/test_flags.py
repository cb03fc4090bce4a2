"""The flags of the verbs come from the classes of options: one definition of name, help, bounds and default."""

from __future__ import annotations

from typing import cast

import pytest
import typer
from click import Group, Option

from io_bench.commands.verbs import app
from io_bench.options import CheckOptions, MlperfOptions, RunOptions, ScanOptions, TargetOptions

VERBS: dict[str, type[TargetOptions]] = {
    "run": RunOptions,
    "scan": ScanOptions,
    "mlperf": MlperfOptions,
    "check": CheckOptions,
}
NEEDED = {"--target": "/mnt", "--model": "8b"}


def flags_of(verb: str) -> dict[str, Option]:
    commands = cast(Group, typer.main.get_command(app)).commands
    return {parameter.opts[0]: cast(Option, parameter) for parameter in commands[verb].params}


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_of_a_verb_is_a_field_of_its_options_with_a_help_text(verb: str) -> None:
    flags, fields = flags_of(verb), VERBS[verb].model_fields.values()
    assert set(flags) == {field.alias for field in fields}
    assert all(flags[f"{field.alias}"].help == field.description for field in fields)
    assert next(iter(flags)) == "--target"


@pytest.mark.parametrize("verb", VERBS)
def test_what_the_command_line_gives_for_flags_left_out_is_the_default_of_the_options(verb: str) -> None:
    needed = {flag: value for flag, value in NEEDED.items() if flag in flags_of(verb)}
    spelled = {flag: None if option.required else option.default for flag, option in flags_of(verb).items()}
    assert VERBS[verb].of(spelled | needed) == VERBS[verb].of(needed)
