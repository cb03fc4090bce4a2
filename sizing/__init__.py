"""From model, optimizer and parallel layout to checkpoint bytes, bandwidth, overhead and capacity.

>>> from sizing import answer
>>> answer({"model": {"preset": "gpt2"}}).checkpoint.bytes_per_parameter
14.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizing.version import __version__

if TYPE_CHECKING:
    from sizing.report import answer

__all__ = ["__version__", "answer"]


def __getattr__(name: str) -> Any:
    """`answer`, imported when somebody asks for it: a second that the parts of this package need not wait."""
    if name == "answer":
        from sizing.report import answer  # noqa: PLC0415 - see above

        return answer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
