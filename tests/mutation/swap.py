"""Puts other code into a function that is already imported, wherever it has been imported to."""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
from collections.abc import Callable, Collection
from types import FunctionType
from typing import Any

import libcst

from tests.mutation.sample import Function

MARK = "_reached_by_a_test"
PACKAGES = ("sizing", "tests")


def put_in(function: Function, node: libcst.FunctionDef) -> None:
    """Have the function do what the node says, with its defaults."""
    target, source = _target(function), _made(function, node)
    target.__code__, target.__defaults__, target.__kwdefaults__ = (
        source.__code__,
        source.__defaults__,
        source.__kwdefaults__,
    )


def mark(functions: Collection[Function], reached: Callable[[str], None]) -> None:
    """Have each function give its key to `reached` when it runs."""
    setattr(builtins, MARK, reached)
    for function in functions:
        body = function.node.body
        assert isinstance(body, libcst.IndentedBlock), "the formatter leaves no function on one line"
        call = libcst.parse_statement(f"{MARK}({function.key!r})")
        put_in(function, function.node.with_changes(body=body.with_changes(body=[call, *body.body])))


def forget_cached_results() -> None:
    """What functions of the project and of its tests have cached was computed by the code before it changed."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for value in vars(module).values():
                clear = getattr(value, "cache_clear", None)
                if clear is not None:
                    clear()


def _target(function: Function) -> FunctionType:
    """The function as imported; inside of what wraps it."""
    found: Any = importlib.import_module(function.module_name)
    owner = found if function.class_name is None else vars(found)[function.class_name]
    return _inside(vars(owner)[function.node.name.value])


def _made(function: Function, node: libcst.FunctionDef) -> FunctionType:
    """What the node defines, in its class for the names that depend on it, with the names of its module."""
    names = dict(vars(importlib.import_module(function.module_name)))
    if function.class_name is None:
        statement: libcst.BaseCompoundStatement = node
    else:
        statement = libcst.ClassDef(libcst.Name(function.class_name), libcst.IndentedBlock([node]))
    source = f"from __future__ import annotations\n{libcst.Module([statement]).code}"
    exec(compile(source, str(function.path), "exec"), names)  # noqa: S102  the project's own function, changed
    made = names[function.class_name or node.name.value]
    return _inside(vars(made)[node.name.value] if function.class_name is not None else made)


def _inside(wrapped: Any) -> FunctionType:
    """The function itself, below static and class methods and decorators."""
    found = inspect.unwrap(getattr(wrapped, "__func__", wrapped))
    assert isinstance(found, FunctionType), f"{wrapped} is no function"
    return found
