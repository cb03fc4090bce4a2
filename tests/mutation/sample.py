"""Which mutants of `sizing` are drawn: the same ones each time, some of every module."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import libcst
from mutmut.mutation.file_mutation import Mutation, create_mutations
from mutmut.mutation.trampoline_templates import mangle_function_name
from mutmut.utils.format_utils import get_mutant_name


@dataclass(frozen=True, slots=True)
class Function:
    """A function of a module, or a method of a class in it, as it stands there."""

    path: Path
    class_name: str | None
    node: libcst.FunctionDef

    @property
    def key(self) -> str:
        """Names it among all functions, as mutmut does."""
        return get_mutant_name(self.path, mangle_function_name(name=self.node.name.value, class_name=self.class_name))

    @property
    def module_name(self) -> str:
        """The module to import for it."""
        return self.key.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A function with one small change."""

    name: str
    function: Function
    mutation: Mutation

    @property
    def changed(self) -> libcst.FunctionDef:
        """The function with its change."""
        changed = self.function.node.deep_replace(self.mutation.original_node, self.mutation.mutated_node)
        assert isinstance(changed, libcst.FunctionDef)
        return changed

    @property
    def diff(self) -> str:
        """The change as a patch, without lines around it."""
        before, after = (libcst.Module([node]).code.split("\n") for node in (self.function.node, self.changed))
        lines = unified_diff(before, after, n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def sample_of(folder: Path, *, num_mutants: int, seed: int) -> list[Mutant]:
    """The mutants to try: one of each module, the rest in proportion to the sizes of the modules."""
    drawn = [placed for path in sorted(folder.rglob("*.py")) for placed in _shuffled(path, seed)]
    first = sorted(drawn, key=lambda placed: placed[0])[:num_mutants]
    return sorted((mutant for _, mutant in first), key=lambda mutant: mutant.name)


def mutants_named(folder: Path, names: list[str]) -> list[Mutant]:
    """The mutants of these names. Raises KeyError for one that is not there."""
    modules = {name.rpartition(".")[0] for name in names}
    paths = (path for path in folder.rglob("*.py") if get_mutant_name(path, "").rstrip(".") in modules)
    found = {mutant.name: mutant for path in paths for mutant in mutants_of(path)}
    return [found[name] for name in names]


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every mutant in a function, numbered as mutmut does, but those that say a sentence in other words."""
    module, mutations, *_ = create_mutations(str(path), path.read_text())
    functions = {function.node: function for function in _functions(path, module)}
    numbers: Counter[str] = Counter()
    for mutation in mutations:
        node = mutation.contained_by_top_level_function
        if isinstance(node, libcst.FunctionDef):
            key = functions[node].key
            numbers[key] += 1
            if not _is_wording(mutation):
                yield Mutant(f"{key}__mutmut_{numbers[key]}", functions[node], mutation)


def _shuffled(path: Path, seed: int) -> Iterator[tuple[float, Mutant]]:
    """The mutants of a module, each with how early it is drawn: 0 is the first of its module, 1 comes after the last.

    The order is that of a hash without the path, so that a module that moves keeps its sample.
    """
    mutants = sorted(mutants_of(path), key=lambda mutant: _hash(f"{seed} {mutant.name.rpartition('.')[2]}"))
    for number, mutant in enumerate(mutants):
        yield number / len(mutants), mutant


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _functions(path: Path, module: libcst.Module) -> Iterator[Function]:
    """The functions and methods of a module."""
    for statement in module.body:
        if isinstance(statement, libcst.FunctionDef):
            yield Function(path, None, statement)
        elif isinstance(statement, libcst.ClassDef):
            for member in statement.body.body:
                if isinstance(member, libcst.FunctionDef):
                    yield Function(path, statement.name.value, member)


def _is_wording(mutation: Mutation) -> bool:
    """Whether a text of several words changes: tests hold what a message says, not how."""
    node = mutation.original_node
    return isinstance(node, libcst.SimpleString) and " " in node.raw_value.strip()
