"""Texts name fields; flags of `ckpt-size` stand where its command line makes them, and each is one that there is."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer.main

from sizing.cli.flags import FLAG_OF_FIELD, FLAGS, CommandLine, flag_words
from sizing.cli.main import main
from sizing.cli.verbs import app
from sizing.errors import REQUIRED, InvalidInput, Problem
from sizing.guesses.fields import field_at
from tests.testbed.terminal import ckpt_size, typed

ROOT = Path(__file__).parents[3]
OF_THE_TERMINAL = ("sizing/cli/", "sizing/terminal/")
"""Where flags are typed or made."""
OTHER_PROGRAMS = ("ckpt-bench", "ckpt-serve", "Megatron")
"""Whose flags are like some of these."""


@functools.cache
def flags_of_all_verbs() -> set[str]:
    group = typer.main.get_group(app)
    return {
        name
        for command in group.commands.values()
        for parameter in command.params
        for name in parameter.opts
        if name.startswith("--")
    } - {"--help"}


def constants(tree: ast.AST) -> Iterator[str]:
    """The texts in a module that are no docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def flags_in(text: str) -> set[str]:
    return {word.strip(".,;:()'`\"").partition("=")[0] for word in text.split()} & flags_of_all_verbs()


def is_of_the_terminal(path: str) -> bool:
    return path.startswith((*OF_THE_TERMINAL, "service/cli/"))


def modules() -> list[Path]:
    found = [path for room in ("sizing", "service") for path in (ROOT / room).rglob("*.py")]
    return [path for path in found if not is_of_the_terminal(str(path.relative_to(ROOT)))]


def test_no_text_outside_the_command_line_names_a_flag_of_it() -> None:
    known = flags_of_all_verbs()
    assert {"--mtbf", "--hf-config", "--csv", "--most"} <= known
    assert len(modules()) > 300
    naming = {
        (str(path.relative_to(ROOT)), text)
        for path in modules()
        if any(flag in (source := path.read_text()) for flag in known)
        for text in constants(ast.parse(source))
        if flags_in(text) and not any(program in text for program in OTHER_PROGRAMS)
    }
    assert naming == set()


def test_every_flag_sets_a_field_that_there_is() -> None:
    assert len(FLAG_OF_FIELD) == len([flag for flag in FLAGS if not flag.sets])
    for field in FLAG_OF_FIELD:
        assert field_at(field).description


@pytest.mark.parametrize("text", ["", "Give checkpoint.interval.", "a-reliability.mtbf_seconds", "mtbf", "a  b\n c"])
def test_what_is_no_field_stays_as_it_is(text: str) -> None:
    assert flag_words(None, {})(text) == text


def test_a_field_between_marks_is_named_by_its_flag() -> None:
    named = flag_words(None, {})(
        "(reliability.mtbf_seconds), `cluster.num_gpus`:\nstorage.preset; storage.calibration."
    )
    assert named == "(--mtbf), `--gpus`:\n--storage-preset; --storage."


def test_what_the_file_leaves_open_is_asked_for_by_its_flag(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text("model: {preset: gpt2}\nreliability: {mtbf_seconds: 3h}\n")
    words = flag_words(path, {})
    assert words("give reliability.mtbf_seconds") == "give reliability.mtbf_seconds"
    assert words("give storage.profile.write_bytes_per_second") == "give --write-bandwidth"
    assert flag_words(path, {"mtbf": "4h"})("give reliability.mtbf_seconds") == "give --mtbf"


def test_a_name_alone_in_an_entry_of_a_list_is_one_of_the_entry() -> None:
    problem = Problem("checkpoint.tiers.0.storage.profile", "has no rate", "", "give write_bytes_per_second: 9 GB/s")
    assert CommandLine(None, {}).problem(problem) == problem
    beside = replace(problem, field="storage.profile")
    assert CommandLine(None, {}).problem(beside).remedy == "give --write-bandwidth: 9 GB/s"


def test_a_plain_word_is_a_field_only_where_its_flag_is_typed() -> None:
    problem = Problem("parallelism", "has data that does not fit", "", "give other data")
    assert CommandLine(None, {"parallelism.tensor": "--tensor"}).problem(problem) == problem
    assert CommandLine(None, {"parallelism.data": "--data"}).problem(problem).remedy == "give other --data"
    assert flag_words(None, {})("two objectives, more data") == "two objectives, more data"
    assert str(InvalidInput([problem])) == "parallelism has data that does not fit: give other data."


def test_a_block_that_is_missing_is_asked_for_by_the_flags_that_give_it(tmp_path: Path) -> None:
    problem = Problem("model", REQUIRED, "", "add it")
    flags = "give --model NAME or --parameters N"
    assert CommandLine(None, {"cluster.num_gpus": "--gpus"}).problem(problem).remedy == flags
    assert CommandLine(tmp_path / "scenario.yaml", {}).problem(problem).remedy == f"add it, or {flags}"


REMEDIES = {
    "--model gpt2": {"--write-bandwidth", "--read-bandwidth", "--mtbf", "--gpus", "--storage", "--storage-preset"},
    "--model gpt2 --full": {
        "--write-bandwidth",
        "--read-bandwidth",
        "--mtbf",
        "--failures-per-node-day",
        "--micro-batch",
    },
    "--model gpt2 --write-bandwidth 1GB/s --mtbf 9h": {"--read-bandwidth", "--storage"},
    "--model gpt2 --write-bandwidth 1GB/s --full": {"--failures-per-node-day", "--mtbf"},
    "simulate --model gpt2 --mtbf 9h": {"--write-bandwidth"},
    "simulate --model gpt2 --write-bandwidth 1GB/s": {"--mtbf", "--failures-per-node-day"},
    "--model zephyr": {"--hf-config", "--parameters"},
}


@pytest.mark.parametrize("arguments", REMEDIES)
def test_remedies_name_flags_and_no_paths(arguments: str) -> None:
    found = typed(main, "ckpt-size", *arguments.split(), environment={"COLUMNS": "300"})
    said = found.stdout + found.stderr
    named = {word.strip(".,;:()'`") for word in said.split()}
    assert named >= REMEDIES[arguments]
    assert "--full" in arguments or not named & FLAG_OF_FIELD.keys(), "but for what was assumed"


def test_every_flag_that_a_remedy_names_is_in_the_help_of_its_verb() -> None:
    for verb in ("answer", "simulate"):
        shown = ckpt_size(verb, "--help-all").stdout
        assert all(flag in shown for flags in REMEDIES.values() for flag in flags)
