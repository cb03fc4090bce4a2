"""Laws of every importer: nothing unknown is dropped, no value leaks, and contradictions name both places."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from sizing.config_files.source import Setting, document_source, parse_settings
from sizing.errors import InvalidInput
from sizing.importers.importer import Importer
from sizing.importers.registry import IMPORTERS
from sizing.published import published
from tests.sizing.importers.imports import import_texts

MADE_UP = "zz_made_up_key"
TOLD_NOWHERE = "a value of nobody"


def _blocks(importer: Importer) -> list[str]:
    """List the blocks that an importer's settings stand in, the top one as an empty text; launchers have flags of any."""
    names = [*importer.defaults, *importer.marks]
    blocks = {name.rpartition(".")[0] for name in names if "*" not in name and not name.startswith("launcher.")}
    ignored = {pattern[: -len(".*")] for pattern in importer.ignored if pattern.endswith(".*")}
    return sorted(block for block in blocks if not any(f"{block}.".startswith(f"{free}.") for free in ignored))


def _minimal(importer: Importer) -> dict[str, Any]:
    """Return the settings of a file that the importer reads: its marks, with its defaults or a harmless value."""
    names = [name for name in importer.marks if "*" not in name]
    return {name: importer.defaults.get(name, 8) for name in names}


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in settings.items():
        *blocks, last = name.split(".")
        block = document
        for each in blocks:
            block = block.setdefault(each, {})
        block[last] = value
    return document


TRAINERS = [each for each in IMPORTERS.values() if each.frameworks]
PLACES = [(each, block) for each in TRAINERS for block in _blocks(each)]


def test_a_default_of_an_importer_is_the_published_one_where_there_is_one() -> None:
    titles = {importer.title: importer.defaults for importer in TRAINERS}
    rows = [
        row for row in published("framework_defaults")["rows"] if row["setting"] in titles.get(row["framework"], ())
    ]
    assert {row["framework"] for row in rows} >= {"Megatron-LM", "MaxText", "torchtitan"}
    assert [titles[row["framework"]][row["setting"]] for row in rows] == [row["default"] for row in rows]


@pytest.mark.parametrize(("importer", "block"), PLACES, ids=[f"{each.name}: {block}" for each, block in PLACES])
def test_a_made_up_key_in_any_block_is_told(importer: Importer, block: str) -> None:
    name = f"{block}.{MADE_UP}" if block else MADE_UP
    text = yaml.safe_dump(_nested({**_minimal(importer), name: TOLD_NOWHERE}))
    try:
        report = import_texts(text, name="train.yaml", num_gpus=4096)
    except InvalidInput:
        pytest.skip("the marks alone contradict each other")
    assert any(each.setting.endswith(MADE_UP) for each in report.not_understood)
    assert TOLD_NOWHERE not in report.model_dump_json()


@pytest.mark.parametrize("importer", TRAINERS, ids=[each.name for each in TRAINERS])
def test_no_pattern_hides_a_key_that_is_read(importer: Importer) -> None:
    """A default is of a setting that matters, so no pattern of what does not matter may match it."""
    settings = {name: Setting(name, 1, name) for name in importer.defaults}
    source = document_source("a", {})
    hidden = {
        name for pattern in importer.ignored if "*" in pattern for name in type(source)("a", settings).matching(pattern)
    }
    assert not hidden


def test_two_files_that_differ_are_refused_by_both_places() -> None:
    flags = "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --tensor-model-parallel-size {}"
    with pytest.raises(InvalidInput, match=r"is 2 in train\.sh, line 1.* and 4 in 1-train\.sh, line 1"):
        import_texts(flags.format(2), flags.format(4))


@pytest.mark.parametrize("value", [[1, "a"], "text", -1, 0, 10**30, float("inf"), True, ""], ids=repr)
@pytest.mark.parametrize("importer", TRAINERS, ids=[each.name for each in TRAINERS])
def test_a_value_of_another_kind_is_refused_or_told_and_never_a_fault(importer: Importer, value: object) -> None:
    for name in importer.defaults:
        text = yaml.safe_dump(_nested({**_minimal(importer), name: value}))
        with contextlib.suppress(InvalidInput):
            import_texts(text, name="train.yaml", num_gpus=64)


def test_titles_read_as_a_list_that_has_each_once() -> None:
    titles = [importer.title for importer in IMPORTERS.values()]
    assert len({title.casefold() for title in titles}) == len(titles)
    assert [title for title in titles if "," in title] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# Run 7\n\n[job]\nx = 1\nx = 2\n", r"Cannot overwrite a value \(at line 5"),
        ("x = 1\nx = 2\n", r"Cannot overwrite a value \(at line 2"),
        ('{"x": 1,\n x: 2}', r"line 2 column 2.*names and texts in double quotes"),
        ("[1, 2", "line 1 column 6"),
        ("a: b: c", "mapping values are not allowed here in line 1"),
    ],
)
def test_a_broken_file_is_refused_with_the_reason_of_its_own_format(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_settings(text)
