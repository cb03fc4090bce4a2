"""Presentation of reports in a notebook: a module of its own, as the class of reports must not import words.

The package registers the function that writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_presenters: list[Callable[[Any], str]] = []


def present_reports(present: Callable[[Any], str]) -> Callable[[Any], str]:
    """Register the function that makes the HTML of reports, in place of the one before."""
    _presenters[:] = [present]
    return present


def report_html(report: Any) -> str:
    """Return the HTML of a report, made by the registered function."""
    (present,) = _presenters
    return present(report)
