"""The report's page on paper, without a browser."""

from __future__ import annotations

from service.errors import NotReady

_MISSING_LIBRARY = "Debian's libpango-1.0-0, libpangoft2-1.0-0 and libharfbuzz-subset0"


def pdf(page: str) -> bytes:
    """The page as a PDF document.

    Raises NotReady where the system's text libraries are missing.
    """
    try:
        import weasyprint  # noqa: PLC0415 - loads system libraries that nothing else needs
    except OSError:
        raise NotReady.of(
            "the PDF", "cannot be set without its text libraries", value=None, remedy=f"install {_MISSING_LIBRARY}"
        ) from None
    only_what_it_holds = weasyprint.urls.URLFetcher(allowed_protocols=("data",), fail_on_errors=True)
    document: bytes = weasyprint.HTML(string=page, url_fetcher=only_what_it_holds).write_pdf()
    return document
