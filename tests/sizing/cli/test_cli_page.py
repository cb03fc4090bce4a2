"""The page about the command lines says what is true: its verbs, and what can be typed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from io_bench.commands.verbs import app as bench
from service.cli.commands import app as serve
from service.cli.commands import token_app
from sizing.cli.verbs import app as size
from tests.testbed.terminal import ckpt_size

PAGE = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
FORMS = re.findall(r"^\| `(--[a-z-]+)` \| `([^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)


def test_the_page_names_every_verb_in_its_table() -> None:
    table = PAGE[: PAGE.index("\n\n", PAGE.index("| program |"))]
    verbs = {
        str(command.name or command.callback.__name__)
        for app in (size, bench, serve)
        for command in app.registered_commands
        if command.callback
    }
    verbs |= {f"token {command.name}" for command in token_app.registered_commands}
    assert {verb for verb in verbs if f"`{verb}`" not in table} == set()


def test_the_page_shows_a_form_of_every_kind_of_quantity() -> None:
    assert {flag for flag, _, _ in FORMS} >= {
        "--parameters",
        "--write-bandwidth",
        "--interval",
        "--max-overhead",
        "--model",
    }


@pytest.mark.parametrize(("flag", "typed", "means"), FORMS)
def test_what_the_page_says_can_be_typed_is_read_so(flag: str, typed: str, means: str) -> None:
    flags = () if flag in ("--model", "--parameters") else ("--model", "gpt2")
    answers = [ckpt_size(*flags, flag, value, "--json") for value in (typed, means)]
    assert [answer.returncode for answer in answers] == [0, 0], answers[0].stderr
    assert json.loads(answers[0].stdout) == json.loads(answers[1].stdout)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--model", "gpt2", "--write-bandwidth", "500"],
        ["--model", "gpt2", "--write-bandwidth", "500 gbps"],
        ["--model", "llama 8b"],
        ["--model", "gpt2", "--interval", "3M"],
    ],
)
def test_what_the_page_says_is_refused_is_refused(arguments: list[str]) -> None:
    assert ckpt_size(*arguments).returncode == 2
