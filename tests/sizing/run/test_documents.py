"""What docs/run.md shows is answered as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sizing.report import answer
from sizing.scenario import scenario_from
from tests.sizing.run.scenarios import ASYNC, document

TEXT = (Path(__file__).parents[3] / "docs" / "run.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split(":", 1)[0])
def test_each_block_is_part_of_a_scenario(block: str) -> None:
    fields: dict[str, Any] = yaml.safe_load(block)
    stated = document(ASYNC, checkpoint={"optimizer_sharding": None})
    base = {name: value for name, value in stated.items() if name not in fields}
    assert answer(scenario_from(document(base | fields))).write is not None


def test_every_strategy_kind_and_verb_is_described() -> None:
    assert len(BLOCKS) >= 4
    words = [
        "every-replica",
        "read-once-broadcast",
        "parallel-read-exchange",
        "host-memory",
        "peer-memory",
        "local-nvme",
    ]
    assert all(f"`{word}`" in TEXT for word in (*words, "shared-file-system", "object-store"))
