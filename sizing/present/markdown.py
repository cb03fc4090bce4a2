"""A document as Markdown, for a comment on a change or a file in a repository. Charts are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sizing.present.document import Document
from sizing.present.rows import Grid, Row


def markdown_of(document: Document) -> str:
    r"""Write a document as Markdown: title, verdict, warnings, figures and tables.

    >>> _table(("what", "before", "after"), [("size", "1|2", "3")])
    '| what | before | after |\n| --- | --- | --- |\n| size | 1\\|2 | 3 |'
    """
    return "\n\n".join(part for part in _parts(document) if part) + "\n"


def _parts(document: Document) -> Iterator[str]:
    first = document.first_page
    yield f"## {_escaped(document.title)}"
    yield _escaped(first.headline)
    verdict = "  \n".join(map(_escaped, first.verdict.splitlines()))
    yield f"**{verdict}**" if len(first.verdict.splitlines()) == 1 else verdict
    yield "\n".join(f"- {_escaped(each)}" for each in first.remedies)
    yield _rows(first.figures)
    yield "\n".join(f"- {_escaped(each)}" for each in first.warnings)
    for grid in document.grids:
        if grid.leads:
            yield _grid(grid)
    for section in document.sections:
        yield f"### {_escaped(section.title)}\n\n{_rows(section.rows)}"
    for grid in document.grids:
        if not grid.leads:
            yield _grid(grid)
    yield "\n".join(map(_escaped, document.remarks))


def _rows(rows: Sequence[Row]) -> str:
    return _table(("", "", ""), rows) if rows else ""


def _grid(grid: Grid) -> str:
    width = max((len(row) for row in grid.rows), default=0)
    table = _table(grid.columns or ("",) * width, grid.rows)
    return f"### {_escaped(grid.title)}\n\n{table}" if grid.title else table


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(text: str) -> str:
    return _escaped(text).replace("\n", "<br>")


def _escaped(text: str) -> str:
    """Escape what would be a table's border or HTML, as texts hold names that somebody else chose."""
    return text.replace("|", r"\|").replace("<", "&lt;")
