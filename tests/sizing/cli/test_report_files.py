"""`--report` writes what the first screen and the tables say into a file."""

from __future__ import annotations

import json
from pathlib import Path

import pypdf
import pytest

from sizing.questions.compare.request import REFERENCE_COMPARISON
from tests.sizing.present.pages import Page
from tests.testbed.terminal import ckpt_size

FLAGS = "--model llama-3.1-8b --data 64 --write-bandwidth 10GB/s --read-bandwidth 10GB/s --mtbf 8h".split()


def text_of(path: Path) -> str:
    return "".join("".join(page.extract_text() for page in pypdf.PdfReader(path).pages).split())


def test_html_has_what_the_screen_says_and_the_tables(tmp_path: Path) -> None:
    found = ckpt_size(*FLAGS, "--report", str(tmp_path / "a.html"))
    assert (found.returncode, found.stderr) == (0, "")
    said = Page((tmp_path / "a.html").read_text()).words
    for line in found.stdout.splitlines()[:2]:
        assert line.strip() in said
    for title in ("What was asked", "Who writes what", "What was assumed", "To ask it again"):
        assert title in said
    assert "data: 64" in said


def test_a_pdf_has_the_same_text_and_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.PDF"
    path.write_text("old")
    shown = ckpt_size(*FLAGS, "--report", str(path), "--json")
    assert shown.returncode == 0
    text = text_of(path)
    assert json.loads(shown.stdout)["model"]["name"] in text
    for words in ("One checkpoint", "To buy: capacity", "Lost time", "What was assumed"):
        assert words.replace(" ", "") in text


@pytest.mark.parametrize(
    ("verb", "title"), [("answer", "Share of wall time lost"), ("simulate", "100 runs that differ")]
)
def test_a_chart_is_drawn_of_what_a_scenario_loses(tmp_path: Path, verb: str, title: str) -> None:
    drawn = ckpt_size(
        verb, *FLAGS, *(("--runs", "100") if verb == "simulate" else ()), "--chart", "a.svg", cwd=tmp_path
    )
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert title in (tmp_path / "a.svg").read_text()


def test_a_comparison_is_written_too(tmp_path: Path) -> None:
    (tmp_path / "both.json").write_text(json.dumps(REFERENCE_COMPARISON))
    found = ckpt_size("compare", "both.json", "--report", "compared.pdf", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    text = text_of(tmp_path / "compared.pdf")
    for words in (
        "as published against slower storage",
        "Inputs that differ",
        "273.0 GB/s",
        "one input after the other",
    ):
        assert words.replace(" ", "") in text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("report.docx", "--report must end in .html, .pdf or .md, got 'report.docx': rename it."),
        ("nowhere/report.html", "--report cannot be written (No such file or directory), got 'nowhere/report.html'"),
        (".html", "--report must end in .html, .pdf or .md"),
    ],
)
def test_what_cannot_be_written_is_refused_in_a_sentence(tmp_path: Path, name: str, sentence: str) -> None:
    found = ckpt_size(*FLAGS, "--report", name, cwd=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith(f"error: {sentence}")
    assert len(found.stderr.splitlines()) == 1
