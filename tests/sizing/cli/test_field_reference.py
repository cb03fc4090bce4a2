"""The page of all fields is the one that the code has."""

from __future__ import annotations

from pathlib import Path

from tests.testbed.terminal import ckpt_size

PUBLISHED = Path(__file__).parents[3] / "docs" / "fields.md"


def test_the_page_in_the_docs_is_what_the_verb_prints() -> None:
    assert ckpt_size("fields").stdout == PUBLISHED.read_text()


def test_a_field_has_its_unit_its_default_and_what_it_is() -> None:
    rows = PUBLISHED.read_text().splitlines()
    (interval, *_) = [row for row in rows if row.startswith("| `interval_seconds` | seconds | 14400 |")]
    assert "Seconds from the start of one checkpoint to the start of the next." in interval


def test_a_block_stands_once_with_all_of_its_paths() -> None:
    page = PUBLISHED.read_text()
    assert page.count("### Parallelism\n") == 1
    assert "### Parallelism\n\n`parallelism`, `checkpoint.restore_parallelism`\n" in page
    assert "### PartSize\n\n`checkpoint.parts.*`\n" in page
