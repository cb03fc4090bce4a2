"""Names of a package that few need: their modules are imported when the names are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def late_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package: it imports the module of a name when that is first used.

    Who imports another module of the package then loads none of those in the table.
    """

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return import_name
