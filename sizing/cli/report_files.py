"""Reports as files: the ending of the name says which kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from sizing.errors import InvalidInput
from sizing.present.document import Document
from sizing.present.markdown import markdown_of
from sizing.terminal.files import write_bytes

REPORT_HELP = "Write the report into FILE.html or FILE.pdf, with charts, or into FILE.md"
_ENDINGS = (".html", ".pdf", ".md")


def require_report_name(path: Path | None) -> None:
    """Refuse a name whose ending is no kind of report, before work is done for it.

    Raises InvalidInput.
    """
    if path is not None and path.suffix.lower() not in _ENDINGS:
        rule = f"must end in {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}"
        raise InvalidInput.of("--report", rule, value=path.name, remedy="rename it")


def write_report(document: Callable[[], Document], path: Path | None) -> None:
    """Write a report into a file, where one is wanted; what was there is replaced.

    Raises InvalidInput where the file cannot be written, and NotInstalled without the extra `report`.
    """
    if path is None:
        return
    write_bytes(path, _content(document(), path.suffix.lower()), option="--report")


def _content(document: Document, ending: str) -> bytes:
    if ending == ".md":
        return markdown_of(document).encode()
    from sizing.present.page import render_page, render_pdf  # noqa: PLC0415 - drawing takes a second to load

    made_at = datetime.now(UTC)  # noqa: TID251 - the command line is the caller with the clock
    page = render_page(document, made_at=made_at)
    return page.encode() if ending == ".html" else render_pdf(page)
