"""A report as HTML for a notebook: the same first screen, sections and tables, without a page around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from sizing.present.grids import report_grids
from sizing.questions.answer.first_screen import first_screen
from sizing.questions.answer.words import assumed, came_from, sections
from sizing.report import SizingReport


def report_html(report: SizingReport) -> str:
    """The whole report: the answer first, the figures, and folded up what they rest on."""
    return "".join(_parts(report))


def _parts(report: SizingReport) -> Iterator[str]:
    screen = first_screen(report)
    yield f"<h3>{escape(screen.headline)}</h3><p><b>{escape(screen.verdict)}</b></p>"
    yield _list("What to do", screen.remedies)
    yield _table(screen.figures)
    yield f"<p>{escape(screen.mark_meaning)}</p>" if screen.mark_meaning else ""
    yield _list("These guesses move the answer", screen.guesses)
    yield _list("Before you rely on it", screen.warnings)
    yield "<details><summary>All figures</summary>"
    for section in sections(report):
        yield f"<h4>{escape(section.title)}</h4>{_table(section.rows)}"
    yield "</details><details><summary>What it rests on</summary>"
    for grid in report_grids(report):
        yield f"<h4>{escape(grid.title)}</h4>{_table(grid.rows, columns=grid.columns)}"
    yield f"<p>{escape(came_from(report))}</p><p>{escape(assumed(report))}</p></details>"


def _list(title: str, sentences: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return f"<p><b>{title}</b></p><ul>{items}</ul>" if items else ""


def _table(rows: Iterable[Iterable[str]], *, columns: Iterable[str] = ()) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(_cell(text) for text in row)}</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return f'<td style="text-align: left">{escape(text)}</td>'
