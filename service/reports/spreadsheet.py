"""The answer as a table for spreadsheets: one figure a row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from pydantic import BaseModel, JsonValue

_SPREADSHEET_COMMANDS = ("=", "+", "-", "@", "\t", "\r")


def csv_text(report: BaseModel) -> str:
    """Every figure of the report with its path in the JSON document.

    A text that a spreadsheet would run as a formula gets an apostrophe before it.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("field", "value"))
    writer.writerows(_leaves(report.model_dump(mode="json"), ""))
    return out.getvalue()


def _leaves(value: JsonValue, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    elif isinstance(value, str) and value.startswith(_SPREADSHEET_COMMANDS):
        yield path, f"'{value}"
    else:
        yield path, value
