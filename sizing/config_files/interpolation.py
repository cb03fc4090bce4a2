"""Interpolations of OmegaConf in hydra's YAML files: `${model.hidden_size}`, `${multiply:4,${.hidden_size}}`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sizing.config_files.source import Unresolved, plain_value

MAX_STEPS = 50
"""Interpolations that lead to others; more are a circle."""

_INNERMOST = re.compile(r"\$\{([^${}]*)\}")
_SUMS: dict[str, Callable[[Iterable[Any]], Any]] = {"multiply": math.prod, "sum": sum, "add": sum}


def resolve_interpolations(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by dotted path with each interpolation as its value, or as Unresolved where the file has none.

    >>> resolve_interpolations({"actor.n": "${oc.select:rollout.n,1}"})
    {'actor.n': 1}
    >>> resolve_interpolations({"model.hidden": 8, "model.ffn": "${multiply:4, ${.hidden}}", "model.tp": "${TP}"})
    {'model.hidden': 8, 'model.ffn': 32, 'model.tp': Unresolved(why='is ${TP}, which the file does not say')}
    """
    return {name: _resolved(value, name, settings) for name, value in settings.items()}


def _resolved(value: Any, name: str, settings: Mapping[str, Any]) -> Any:
    text = value
    for _ in range(MAX_STEPS):
        if not isinstance(text, str) or (found := _INNERMOST.search(text)) is None:
            return text
        inner = _value_of(found[1], name, settings)
        if isinstance(inner, Unresolved):
            return inner
        text = inner if found[0] == text else f"{text[: found.start()]}{inner}{text[found.end() :]}"
    return Unresolved(f"is {value}, which leads in a circle")


def _called(function: str, arguments: str, settings: Mapping[str, Any], unknown: Unresolved) -> Any:
    """Return what a function of OmegaConf makes of its arguments."""
    first, comma, otherwise = arguments.partition(",")
    if re.fullmatch(r"[A-Z][A-Z0-9_]*", function):  # of the environment, with a default
        return plain_value(arguments.removeprefix("-"))
    if function == "oc.env":
        return plain_value(otherwise.strip()) if comma else unknown
    if function == "oc.select":  # a setting, or what stands behind the comma where there is none
        return settings.get(first.strip(), plain_value(otherwise.strip() or "null"))
    numbers = [plain_value(each.strip()) for each in arguments.split(",")]
    if function not in _SUMS or not all(isinstance(each, int | float) for each in numbers):
        return unknown
    return _SUMS[function](numbers)


def _value_of(expression: str, name: str, settings: Mapping[str, Any]) -> Any:
    unknown = Unresolved(f"is ${{{expression}}}, which the file does not say")
    function, is_call, arguments = expression.partition(":")
    if is_call:
        return _called(function, arguments, settings, unknown)
    dots = len(expression) - len(expression.lstrip("."))
    block = ".".join(name.split(".")[: len(name.split(".")) - dots]) if dots else ""
    path = f"{block}.{expression[dots:]}" if block else expression[dots:]
    if path in settings:
        return settings[path]
    within = path.partition(".")[2]  # the file itself stands in a block of another: ${training.model.x}
    return settings.get(within, unknown) if within and not dots else unknown
