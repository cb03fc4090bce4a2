"""Loading: without a search for garbage in what stays, and of names that few need only when they are used."""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Stop garbage collection within the block, and exempt what it has loaded from later collections.

    Libraries make hundreds of thousands of objects that stay. To look through them again and again, and once more at
    the end of the process, took a third of the processor time of a short run of `ckpt-bench`.
    """
    was_collecting, num_modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > num_modules:
            gc.freeze()
        if was_collecting:
            gc.enable()


def late_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the `__getattr__` of a package: it imports the module of a name when that is first used.

    Who imports another module of the package then loads none of those in the table.
    """

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)

    return import_name
