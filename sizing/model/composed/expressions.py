"""Expressions over the names of a config, with which `model_types.toml` gives widths, switches and layers.

They have numbers, text, names, `+ - * / // %`, comparisons, `in`, `and`, `or`, `not`, `a if b else c`, `list[i]`,
`len`, `max` and `int`. A field may be one value or a list of them: `each(x, i)` is the value of layer i, `many(x)` the
number of values.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable
from typing import Any

Names = Callable[[str], Any]
"""Function that returns the value of a name."""

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg}


def _each(value: Any, layer: int) -> Any:
    return value[layer] if isinstance(value, (list, tuple)) else value


def _many(value: Any) -> int:
    return len(value) if isinstance(value, (list, tuple)) else 1


_FUNCTIONS: dict[str, Callable[..., Any]] = {"len": len, "max": max, "int": int, "each": _each, "many": _many}


@functools.cache
def parse(text: str) -> ast.expr:
    """Parse an expression, once for each text."""
    return ast.parse(text, mode="eval").body


@functools.cache
def names_in(text: str) -> frozenset[str]:
    """Return the names that an expression reads.

    >>> sorted(names_in("hidden_size // heads if heads else 1"))
    ['heads', 'hidden_size']
    """
    names = {node.id for node in ast.walk(parse(text)) if isinstance(node, ast.Name)}
    return frozenset(names - _FUNCTIONS.keys())


def evaluate(text: str, names: Names) -> Any:
    """Compute the value of an expression.

    Raises TypeError, LookupError, ValueError or ArithmeticError where the values of its names do not fit it.

    >>> evaluate("hidden_size // heads", {"hidden_size": 12, "heads": 3}.__getitem__)
    4
    """
    return _value(parse(text), names)


def _value(node: ast.expr, names: Names) -> Any:
    return _RULES[type(node)](node, names)


def _binary(node: Any, names: Names) -> Any:
    left, right = _value(node.left, names), _value(node.right, names)
    if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        raise TypeError
    return _ARITHMETIC[type(node.op)](left, right)


def _either(node: Any, names: Names) -> Any:
    """Evaluate `a or b` or `a and b`, up to the first operand that decides."""
    *first, last = node.values
    stops_at = isinstance(node.op, ast.Or)
    for operand in first:
        value = _value(operand, names)
        if bool(value) == stops_at:
            return value
    return _value(last, names)


def _compare(node: Any, names: Names) -> bool:
    left = _value(node.left, names)
    for comparison, operand in zip(node.ops, node.comparators, strict=True):
        right = _value(operand, names)
        if not _COMPARISONS[type(comparison)](left, right):
            return False
        left = right
    return True


_RULES: dict[type[ast.expr], Callable[[Any, Names], Any]] = {
    ast.Constant: lambda node, _: node.value,
    ast.Name: lambda node, names: names(node.id),
    ast.BinOp: _binary,
    ast.UnaryOp: lambda node, names: _UNARY[type(node.op)](_value(node.operand, names)),
    ast.BoolOp: _either,
    ast.Compare: _compare,
    ast.IfExp: lambda node, names: _value(node.body if _value(node.test, names) else node.orelse, names),
    ast.Subscript: lambda node, names: _value(node.value, names)[_value(node.slice, names)],
    ast.Tuple: lambda node, names: tuple(_value(each, names) for each in node.elts),
    ast.Call: lambda node, names: _FUNCTIONS[node.func.id](*(_value(each, names) for each in node.args)),
}
