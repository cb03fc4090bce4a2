"""A format that leaves something out does not type-check, and no other module asks for a format by its name."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from mypy import api

import io_bench
import service
import sizing
from sizing.layout.formats import FORMATS, CheckpointFormat
from tests.sizing.layout import toy_format

ROOT = Path(sizing.__path__[0]).parent
TOY = Path(toy_format.__file__).read_text(encoding="utf-8")
METHODS = sorted(CheckpointFormat.__abstractmethods__)
FIELDS = [field.name for field in dataclasses.fields(CheckpointFormat)]
MYPY = f"""
[mypy]
strict = true
mypy_path = {ROOT}
explicit_package_bases = true
[mypy-pydantic.*,pydantic_core.*,numpy.*,scipy.*]
follow_imports = skip
"""
"""What the formats do not rest on is left unread, which saves most of the time."""


def test_the_documentation_shows_this_toy() -> None:
    assert f"```python\n{TOY}```" in (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of the toy format, whole and without each of its methods and fields."""
    folder = tmp_path_factory.mktemp("formats")
    (folder / "mypy.ini").write_text(MYPY)
    sources = {"whole": TOY} | {f"without_{name}": _without(name) for name in (*METHODS, *FIELDS)}
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    options = ["--config-file", str(folder / "mypy.ini"), "--cache-dir", str(folder / "cache"), "--no-error-summary"]
    found, _, _ = api.run([*options, *(str(folder / f"{name}.py") for name in sources)])
    lines = [re.fullmatch(r".*?(\w+)\.py:\d+: error: (.*)", line) for line in found.splitlines()]
    assert all(lines), found
    return {name: [line[2] for line in lines if line and line[1] == name] for name in sources}


def test_a_whole_format_type_checks(errors: dict[str, list[str]]) -> None:
    assert errors["whole"] == []


@pytest.mark.parametrize("method", METHODS)
def test_a_format_without_a_method_does_not_type_check(method: str, errors: dict[str, list[str]]) -> None:
    [error] = errors[f"without_{method}"]
    assert error.startswith(f'Cannot instantiate abstract class "StageFiles" with abstract attribute "{method}"')


@pytest.mark.parametrize("field", FIELDS)
def test_a_format_without_a_field_does_not_type_check(field: str, errors: dict[str, list[str]]) -> None:
    [error] = errors[f"without_{field}"]
    assert error.startswith(f'Missing named argument "{field}" for "StageFiles"')


MEANS_SOMETHING_ELSE = {
    ("sizing/layout/sharding.py", "megatron"): "a framework",
    ("sizing/layout/sharding.py", "deepspeed"): "a framework",
    ("sizing/layout/framework_defaults.py", "megatron"): "a framework",
    ("sizing/layout/framework_defaults.py", "deepspeed"): "a framework",
    ("sizing/state/saved_state.py", "megatron"): "a framework",
    ("sizing/state/saved_state.py", "deepspeed"): "a framework",
    ("sizing/training/memory/state_memory.py", "megatron"): "a framework",
    ("sizing/training/memory/state_memory.py", "deepspeed"): "a framework",
    ("sizing/run/demands/universal.py", "deepspeed"): "a framework",
    ("sizing/training/kernels.py", "megatron"): "a framework",
    ("sizing/explore/techniques/offloading.py", "deepspeed"): "a framework",
    ("sizing/training/memory/in_flight.py", "megatron"): "a framework",
    ("sizing/training/memory/in_flight.py", "deepspeed"): "a framework",
    ("sizing/training/execution.py", "megatron"): "a framework",
    ("sizing/training/placement.py", "megatron"): "a framework",
    ("sizing/training/placement.py", "deepspeed"): "a framework",
    ("sizing/training/memory/layer_activations.py", "full"): "recomputation",
    ("sizing/training/execution.py", "full"): "recomputation",
    ("sizing/state/training.py", "full"): "recomputation",
    ("sizing/explore/layouts/partial.py", "full"): "recomputation",
    ("sizing/training/offload/offloaded.py", "full"): "recomputation",
    ("sizing/training/time/stage.py", "full"): "recomputation",
    ("sizing/training/memory/gpu_memory.py", "full"): "recomputation",
    ("sizing/validation/published_throughputs.py", "megatron"): "a framework",
    ("sizing/explore/techniques/planning.py", "full"): "recomputation",
    ("sizing/checkpoint_files/folder.py", "orbax"): "what a folder holds",
    ("io_bench/validation/saving.py", "full"): "how a validation case saves",
    ("io_bench/validation/comparison.py", "deepspeed"): "how a validation case saves",
}


def test_no_module_asks_for_a_format_by_its_name() -> None:
    asking = {
        (str(path.relative_to(ROOT)), name)
        for package in (sizing, io_bench, service)
        for path in Path(package.__path__[0]).rglob("*.py")
        for name in _names_asked(ast.parse(path.read_text(encoding="utf-8")))
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
    assert "full" in set(_names_asked(ast.parse(source)))


def test_a_name_that_is_only_given_is_not_asked_for() -> None:
    assert "full" not in set(_names_asked(ast.parse('scenario = {"format": "full"}; answer(format="full")')))


def _without(name: str) -> str:
    """The toy format without a method, or without a field where it is made."""
    module = ast.parse(TOY)
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            node.body = [each for each in node.body if not (isinstance(each, ast.FunctionDef) and each.name == name)]
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StageFiles":
            node.keywords = [each for each in node.keywords if each.arg != name]
    return ast.unparse(module)


def _names_asked(module: ast.Module) -> Iterator[object]:
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
