"""A format that leaves something out is none, and no other module asks for a format by its name."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

import io_bench
import service
import sizing
from sizing.layout.formats import FORMATS, CheckpointFormat
from tests.sizing.layout import toy_format

ROOT = Path(sizing.__path__[0]).parent
TOY = Path(toy_format.__file__).read_text(encoding="utf-8")
METHODS = sorted(CheckpointFormat.__abstractmethods__)
FIELDS = [
    field.name
    for field in dataclasses.fields(CheckpointFormat)
    if field.default is field.default_factory is dataclasses.MISSING
]
"""Facts that a format must state; those with a default are alike in most formats."""


def test_the_documentation_shows_this_toy() -> None:
    assert f"```python\n{TOY}```" in (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*METHODS, *FIELDS])
def test_a_format_without_a_method_or_a_field_is_none(name: str) -> None:
    """`make check` has the types of the whole toy."""
    with pytest.raises(TypeError, match=f"(StageFiles|CheckpointFormat).*'?{name}'?"):
        exec(_without(name), {"__name__": "incomplete"})  # noqa: S102 - the toy, less one of its parts


MEANS_SOMETHING_ELSE = {
    ("sizing/training/layer_activations.py", "full"): "recomputation",
    ("sizing/training/execution.py", "full"): "recomputation",
    ("sizing/state/training.py", "full"): "recomputation",
    ("sizing/questions/layouts/memory_savings.py", "full"): "recomputation",
    ("sizing/questions/techniques/registry.py", "full"): "recomputation",
    ("sizing/layout/formats/registry.py", "full"): "a kind of format",
    ("sizing/run/publication.py", "full"): "what a publication sends",
    ("sizing/state/training.py", "hf-trainer"): "a name for a framework",
    ("sizing/checkpoint_files/folder.py", "orbax"): "what a folder holds",
    ("io_bench/engines/__init__.py", "torch-save"): "an engine",
    ("sizing/checkpoint_files/reading.py", "torch-save"): "what a folder holds",
    ("sizing/checkpoint_files/folder.py", "torch-save"): "what a folder holds",
    ("io_bench/checks/validation/saving.py", "full"): "how a validation case saves",
    ("io_bench/checks/validation/comparison.py", "deepspeed"): "how a validation case saves",
}


def test_no_module_asks_for_a_format_by_its_name() -> None:
    asking = {
        (str(path.relative_to(ROOT)), name)
        for package in (sizing, io_bench, service)
        for path in Path(package.__path__[0]).rglob("*.py")
        if "importers" not in path.parts  # each reads the words of the frameworks whose files it knows
        for name in names_asked(ast.parse(path.read_text(encoding="utf-8")))
        if name in FORMATS
    }
    assert asking == set(MEANS_SOMETHING_ELSE)


@pytest.mark.parametrize(
    "source",
    [
        'saved_as.name == "full"',
        'saved_as.name in ("full", other)',
        'match name:\n    case "full":\n        pass',
        'rates = {"full": 1}',
        'rates = {("full", "sync"): 1}',
        'rates.get(name, 1) if name else rates.get("full")',
        'rates["full"]',
    ],
)
def test_each_way_to_ask_for_a_name_is_found(source: str) -> None:
    assert "full" in set(names_asked(ast.parse(source)))


def test_a_name_that_is_only_given_is_not_asked_for() -> None:
    assert "full" not in set(names_asked(ast.parse('scenario = {"format": "full"}; answer(format="full")')))


def _without(name: str) -> str:
    """The toy format without a method, or without a field where it is made."""
    module = ast.parse(TOY)
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            node.body = [each for each in node.body if not (isinstance(each, ast.FunctionDef) and each.name == name)]
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StageFiles":
            node.keywords = [each for each in node.keywords if each.arg != name]
    return ast.unparse(module)


def names_asked(module: ast.Module) -> Iterator[object]:
    """Constants that a comparison, a case or the key of a table asks for."""
    for node in ast.walk(module):
        for asked in _asked(node):
            yield from (inner.value for inner in ast.walk(asked) if isinstance(inner, ast.Constant))


def _asked(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare() | ast.MatchValue():
            yield node
        case ast.Dict(keys=keys):
            yield from filter(None, keys)
        case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
            yield key
        case ast.Subscript(value=table, slice=key) if getattr(table, "id", "") != "Literal":
            yield key
