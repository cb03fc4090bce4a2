"""Loading of libraries whose objects stay for as long as the process runs."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator


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
