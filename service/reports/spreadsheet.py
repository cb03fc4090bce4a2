"""The answer as a table for spreadsheets: one figure a row."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from pydantic import BaseModel, JsonValue

from sizing.spreadsheets import TableWriter


def csv_text(report: BaseModel) -> str:
    """Every figure of the report with its path in the JSON document."""
    return table_text(("field", "value"), _leaves(report.model_dump(mode="json"), ""))


def table_text(heading: Iterable[object], rows: Iterable[Iterable[object]], *, line_end: str = "\r\n") -> str:
    r"""A table as CSV.

    A text that a spreadsheet would run as a formula gets an apostrophe before it; numbers stay what they are.

    >>> print(table_text(["name", "value"], [["=HYPERLINK(1)", -1.5], ["gpt2", None]], line_end="\n"), end="")
    name,value
    '=HYPERLINK(1),-1.5
    gpt2,
    """
    out = io.StringIO()
    writer = TableWriter(out, line_end=line_end)
    writer.row(heading)
    writer.rows(rows)
    return out.getvalue()


def _leaves(value: JsonValue, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value
