"""Reports as files: the ending of the name says which kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from sizing.errors import InvalidInput
from sizing.reports.document import Document

_HELP = "Write the report with charts into FILE.html or FILE.pdf"
ReportFile = Annotated[Path | None, typer.Option("--report", help=_HELP)]
REPORT_FILE = (Path | None, typer.Option(None, "--report", help=_HELP))
"""The same for verbs with the flags of a scenario."""
_ENDINGS = (".html", ".pdf")


def require_report_name(path: Path | None) -> None:
    """Refuse a name whose ending is no kind of report, before work is done for it.

    Raises InvalidInput.
    """
    if path is not None and path.suffix.lower() not in _ENDINGS:
        rule = f"must end in {' or '.join(_ENDINGS)}"
        raise InvalidInput.of("--report", rule, value=path.name, remedy="rename it")


def write_report(document: Callable[[], Document], path: Path | None) -> None:
    """Write a report into a file, where one is wanted; what was there is replaced.

    Raises InvalidInput where the file cannot be written, and NotInstalled without the extra `report`.
    """
    if path is None:
        return
    from sizing.reports.page import html, pdf  # noqa: PLC0415 - the libraries that draw take a second to load

    page = html(document(), made_at=datetime.now(UTC))  # noqa: TID251 - the command line is the caller with the clock
    content = page.encode() if path.suffix.lower() == ".html" else pdf(page)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InvalidInput.of(
            "--report", f"cannot be written ({error.strerror})", value=str(path), remedy="check folder and permissions"
        ) from None
