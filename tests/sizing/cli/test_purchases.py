"""The worked purchases: what the guide prints is what the command answers."""

import re
from pathlib import Path

import pytest

from tests.testbed.terminal import ckpt_size

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = (DOCS / "purchases.md").read_text()
FILES = sorted(path.name for path in (DOCS / "purchases").glob("*.yaml"))


_NUMBER = re.compile(r"\d+(?:[,.]\d+)*")


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_the_guide_prints_what_is_answered_and_tells_of_no_other_figure(tmp_path: Path, name: str) -> None:
    """The figures of the prose are those of the tables that --full prints, or of the file."""
    block = re.search(rf"\$ ckpt-size decide docs/purchases/{name}\n(.*?)```(.*?)(?=\n## |\Z)", GUIDE, re.DOTALL)
    assert block is not None
    printed, prose = block.groups()
    found = ckpt_size("decide", str(DOCS / "purchases" / name), "--full", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[: len(printed.splitlines())] == printed.splitlines()
    known = _NUMBER.findall(found.stdout + (DOCS / "purchases" / name).read_text())
    assert set(_NUMBER.findall(prose)) - set(known) == set()
