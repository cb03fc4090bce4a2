"""Every path of the repository that a page names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_PATH = re.compile(r"(?<![\w/.-])(?:sizing|io_bench|mcp_server|service|service_client|scripts|tests)/[\w./-]*[\w/]")
_MADE = {
    "docs/extending.md": {
        "io_bench/engines/torch_save_renamed.py",
        "service/routes/checkpoints.py",
        "sizing/layout/formats/stage_files.py",
        "sizing/questions/ship/question.py",
        "sizing/run/in_process.py",
    },
    "docs/mutation.md": {"tests/sizing/ROOM"},
}
"""What a page tells the reader to make."""
_FORMER = {"docs/decisions/0008-rooms.md": {"sizing/run/demands"}}
"""What a decision says was there before."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    known = _MADE.get(name, set()) | _FORMER.get(name, set())
    named = set(_PATH.findall(page.read_text())) - known
    assert {path for path in named if not (ROOT / path).exists()} == set()
