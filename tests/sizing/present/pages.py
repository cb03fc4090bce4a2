"""Reading an HTML page: its tags, its words, and its headings."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HEADINGS = ("h1", "h2", "h3", "th")
FIELD_NAME = re.compile(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b|\b[a-z]+\.[a-z]+\b")
"""snake_case, or a dotted path."""


class Page(HTMLParser):
    """Tags with their attributes, the text between them, and what stands as a heading or a label."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.headings: list[str] = []
        self._inside = False
        self.feed(text)
        self.words = " ".join(self.words.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag in HEADINGS or dict(attrs).get("class") == "label"
        if self._inside:
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the name that HTMLParser calls it by
        self._inside = False
        self.words += " "

    def handle_data(self, data: str) -> None:
        self.words += data
        if self._inside:
            self.headings[-1] += data
