"""From model, optimizer and parallel layout to checkpoint bytes, bandwidth, overhead and capacity.

>>> from sizing import answer
>>> answer({"model": {"preset": "gpt2"}}).checkpoint.bytes_per_parameter
14.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sizing.notebook import present_reports
from sizing.version import __version__

if TYPE_CHECKING:
    from sizing.report import SizingReport, answer

__all__ = ["__version__", "answer"]


def __getattr__(name: str) -> Any:
    """Import `answer` on first use: it takes a second, for which other parts of this package need not wait."""
    if name == "answer":
        from sizing.report import answer  # noqa: PLC0415 - see above

        return answer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@present_reports
def _report_html(report: SizingReport) -> str:
    """Return a report as HTML. Its words are imported when a notebook first shows a report."""
    from sizing.questions.answer.notebook import report_html  # noqa: PLC0415 - see above

    return report_html(report)
