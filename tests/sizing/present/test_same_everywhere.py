"""The same words and digits stand in the terminal, in the JSON document, on the page and in the PDF."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pypdf
import pytest
import yaml

from sizing.present.rows import FirstScreen
from sizing.questions.answer.first_screen import first_screen
from sizing.questions.answer.words import sections
from sizing.report import SizingReport
from tests.examples import spread
from tests.sizing.present.pages import Page
from tests.sizing.present.scenarios import LLAMA, SCENARIOS
from tests.testbed.terminal import ckpt_size

LESS_AND_BESIDE: dict[str, Any] = LLAMA | {
    "training": {"reinforcement": {"publication": {"interval_seconds": "2min", "replica_bytes_per_second": 1e10}}},
    "checkpoint": {
        "format": "torch-dist",
        "interval_seconds": "30min",
        "reduction": {"compression": {}, "delta": {"full_every": 8, "fraction": 0.3, "against": "previous"}},
        "export": {"every": 10, "written_by": "rank-0", "keep": 2},
    },
    "storage": {
        "profile": {
            "write_bytes_per_second": "20 GB/s",
            "read_bytes_per_second": "40 GB/s",
            "writer_write_bytes_per_second": "1 GB/s",
        }
    },
}
ASKED = {name: SCENARIOS[name] for name in ("all missed", "two short limits", "tiers and prices")} | {
    "less than everything": LESS_AND_BESIDE
}

PRINTED = "less than everything"
"""As PDF too, which takes a second and more."""


def squeezed(text: str) -> str:
    """Without the spaces, which each place breaks in its own way."""
    return "".join(text.split())


def pages_of(pdf: bytes) -> str:
    """The text of the pages, without their numbers."""
    reader = pypdf.PdfReader(io.BytesIO(pdf))
    texts = (squeezed(page.extract_text()) for page in reader.pages)
    return "".join(text.replace(f"{number}/{len(reader.pages)}", "", 1) for number, text in enumerate(texts, 1))


def first_words(screen: FirstScreen) -> Iterator[str]:
    """Headline, verdict, remedies, warnings, guesses, and each figure with what it means."""
    yield screen.headline
    yield from screen.verdict.splitlines()
    yield from (*screen.remedies, *screen.warnings, *screen.guesses, screen.mark_meaning)
    yield from (text for row in screen.figures for text in row)


def figures(report: SizingReport) -> Iterator[str]:
    """Every figure of the tables, with its label."""
    return (text for section in sections(report) for row in section.rows for text in (row.label, row.figure))


@pytest.mark.parametrize("name", spread(ASKED, by_default=["all missed", "tiers and prices"]))
def test_terminal_json_page_and_pdf_say_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / "asked.yaml").write_text(yaml.safe_dump(ASKED[name]))
    shown = squeezed(ckpt_size("asked.yaml", cwd=tmp_path).stdout)
    full = squeezed(ckpt_size("asked.yaml", "--full", "--report", "a.html", cwd=tmp_path).stdout)
    on_paper = ("--report", "a.pdf") if name == PRINTED else ()
    report = SizingReport.model_validate_json(ckpt_size("asked.yaml", "--json", *on_paper, cwd=tmp_path).stdout)
    first, tables = set(first_words(first_screen(report))), set(figures(report))
    assert [words for words in first if squeezed(words) not in shown] == []
    assert [words for words in tables if squeezed(words) not in full] == []
    page = squeezed(Page((tmp_path / "a.html").read_text()).words)
    assert [words for words in first | tables if squeezed(words) not in page] == []
    if on_paper:
        paper = pages_of((tmp_path / "a.pdf").read_bytes())
        assert [words for words in first | tables if squeezed(words) not in paper] == []
