"""Which mutants the type checker refuses: they would fail `make check`, whatever the tests say."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import libcst

from tests.mutation.sample import Function, Mutant

_ERROR = re.compile(r"(?P<path>[^:]+):(?P<line>\d+): error: .*?(?:\[(?P<code>[a-z-]+)\])?$")
_OF_TWO_IN_A_CLASS = "no-redef"
"""A copy of `__init__` declares the same attributes again."""


def refused_by_types(mutants: Sequence[Mutant], folder: Path) -> set[str]:
    """The names of the mutants in which mypy finds an error that it does not find in the function as it is.

    One run for all: each mutated function stands below the one that it comes from, under a name of its own.
    """
    tree = folder / "types"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree("sizing", tree / "sizing", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy("pyproject.toml", tree)
    by_path: dict[Path, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_path[mutant.function.path].append(mutant)
    for path, some in by_path.items():
        (tree / path).write_text(_with_copies(path, some))
    cache = Path(".mypy_cache")
    if cache.exists():
        shutil.copytree(cache, tree / cache)
    said = subprocess.run(
        [sys.executable, "-m", "mypy", "sizing"], cwd=tree, capture_output=True, text=True, check=False
    ).stdout
    wrong = _functions_with_errors(tree, said)
    return {mutant.name for mutant in mutants if _copy(mutant) in wrong and _original(mutant.function) not in wrong}


def _with_copies(path: Path, mutants: Iterable[Mutant]) -> str:
    """The module with the changed functions, and each function once more as it is."""
    copies: dict[tuple[str | None, str], list[libcst.FunctionDef]] = {}
    for mutant in mutants:
        function = mutant.function
        place = (function.class_name, function.node.name.value)
        these = copies.setdefault(place, [_renamed(function.node, _original(function))])
        these.append(_renamed(mutant.changed, _copy(mutant)))
    module = libcst.parse_module(path.read_text())
    return module.with_changes(body=list(_below(module.body, None, copies))).code


def _below(
    statements: Sequence[libcst.BaseStatement],
    class_name: str | None,
    copies: dict[tuple[str | None, str], list[libcst.FunctionDef]],
) -> Iterator[libcst.BaseStatement]:
    for statement in statements:
        if isinstance(statement, libcst.ClassDef) and class_name is None:
            members = list(_below(statement.body.body, statement.name.value, copies))  # type: ignore[arg-type]  # a class has a block of statements
            yield statement.with_changes(body=statement.body.with_changes(body=members))
            continue
        yield statement
        if isinstance(statement, libcst.FunctionDef):
            yield from copies.get((class_name, statement.name.value), [])


def _renamed(node: libcst.FunctionDef, name: str) -> libcst.FunctionDef:
    return node.with_changes(name=libcst.Name(name))


def _copy(mutant: Mutant) -> str:
    """A name that no other function of the project has."""
    return re.sub(r"\W", "_", mutant.name)


def _original(function: Function) -> str:
    return re.sub(r"\W", "_", f"{function.key}__as_it_is")


def _functions_with_errors(tree: Path, said: str) -> set[str]:
    """The names of the functions in which the type checker found errors."""
    lines: dict[str, set[int]] = defaultdict(set)
    for found in filter(None, map(_ERROR.match, said.splitlines())):
        if found["code"] != _OF_TWO_IN_A_CLASS:
            lines[found["path"]].add(int(found["line"]))
    return {
        node.name
        for path, wrong in lines.items()
        for node in ast.walk(ast.parse((tree / path).read_text()))
        if isinstance(node, ast.FunctionDef) and any(node.lineno <= line <= (node.end_lineno or 0) for line in wrong)
    }
