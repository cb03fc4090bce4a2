"""The worked purchases: what the guide prints is what the command answers."""

import re
from pathlib import Path

import pytest

from tests.examples import spread
from tests.testbed.terminal import ckpt_size

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = (DOCS / "purchases.md").read_text()
FILES = sorted(path.name for path in (DOCS / "purchases").glob("*.yaml"))


@pytest.mark.parametrize("name", spread(FILES, by_default=["spot-nodes.yaml", "uncertain.yaml"]))
def test_the_guide_prints_what_is_answered(tmp_path: Path, name: str) -> None:
    block = re.search(rf"\$ ckpt-size decide docs/purchases/{name}\n(.*?)```", GUIDE, re.DOTALL)
    assert block is not None
    found = ckpt_size("decide", str(DOCS / "purchases" / name), cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines()[: len(block[1].splitlines())] == block[1].splitlines()
