"""Which mutants of `sizing` are drawn: the same ones each time, some of every module."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libcst
from mutmut.mutation.file_mutation import Mutation, create_mutations
from mutmut.mutation.trampoline_templates import mangle_function_name
from mutmut.utils.format_utils import get_mutant_name


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mutant by mutmut's name, and how early it is drawn: 0 is the first of its module, 1 comes after the last."""

    name: str
    place: float


def sample_of(folder: Path, *, num_mutants: int, seed: int) -> list[str]:
    """The names of the mutants to try: one of each module, the rest in proportion to the sizes of the modules."""
    mutants = [mutant for path in sorted(folder.rglob("*.py")) for mutant in _shuffled(path, seed)]
    return sorted(mutant.name for mutant in sorted(mutants, key=lambda mutant: mutant.place)[:num_mutants])


def _shuffled(path: Path, seed: int) -> Iterator[Mutant]:
    """The mutants of a module in the order of a hash without its path, so that a module that moves keeps its sample."""
    names = sorted(_names(path), key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    for number, name in enumerate(names):
        yield Mutant(get_mutant_name(path, name), number / len(names))


def _names(path: Path) -> Iterator[str]:
    """Every mutant in a function, numbered as mutmut does, but those that say a sentence in other words."""
    module, mutations, *_ = create_mutations(str(path), path.read_text())
    functions = dict(_functions(module))
    numbers: Counter[str] = Counter()
    for mutation in mutations:
        function = mutation.contained_by_top_level_function
        if isinstance(function, libcst.FunctionDef):
            name = functions[function]
            numbers[name] += 1
            if not _is_wording(mutation):
                yield f"{name}__mutmut_{numbers[name]}"


def _functions(module: libcst.Module) -> Iterator[tuple[libcst.FunctionDef, str]]:
    """The functions and methods of a module, with mutmut's names of them."""
    for statement in module.body:
        if isinstance(statement, libcst.FunctionDef):
            yield statement, mangle_function_name(name=statement.name.value, class_name=None)
        elif isinstance(statement, libcst.ClassDef):
            for member in statement.body.body:
                if isinstance(member, libcst.FunctionDef):
                    yield member, mangle_function_name(name=member.name.value, class_name=statement.name.value)


def _is_wording(mutation: Mutation) -> bool:
    """Whether a text of several words changes: tests hold what a message says, not how."""
    node = mutation.original_node
    return isinstance(node, libcst.SimpleString) and " " in node.raw_value.strip()
