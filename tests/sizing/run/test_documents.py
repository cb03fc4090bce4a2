"""What docs/run.md shows is answered as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sizing.layout.formats.registry import FORMATS
from sizing.report import answer
from sizing.scenario import scenario_from
from tests.sizing.run.scenarios import ASYNC, document
from tests.testbed.terminal import ckpt_size

TEXT = (Path(__file__).parents[3] / "docs" / "run.md").read_text()
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split(":", 1)[0])
def test_each_block_is_part_of_a_scenario(block: str) -> None:
    fields: dict[str, Any] = yaml.safe_load(block)
    stated = document(ASYNC, checkpoint={"optimizer_sharding": None})
    base = {name: value for name, value in stated.items() if name not in fields}
    assert answer(scenario_from(document(base | fields))).write is not None


def test_the_tiers_shown_recover_something_each_also_where_their_kinds_say_what_they_survive() -> None:
    (shown,) = [yaml.safe_load(block) for block in BLOCKS if "object-store" in block]
    components = [
        {"name": "software", "mtbf_seconds": "20h", "loss_domain": "process"},
        {"name": "node", "per": "node", "failures_per_hour": 1e-4, "loss_domain": "node"},
        {"name": "rack", "mtbf_seconds": "300h", "loss_domain": "rack"},
    ]
    scenario = document(ASYNC, checkpoint={"optimizer_sharding": None}) | shown
    as_given = answer(scenario)
    for tier in shown["checkpoint"]["tiers"]:
        tier.pop("recovered_fraction", None)
    reliability = scenario["reliability"] | {"failures_per_node_day": None, "components": components}
    by_kind = answer(scenario | {"reliability": reliability})
    for found in (as_given, by_kind):
        assert all(row.used_fraction for row in found.tiers if row.used_fraction is not None)
        assert not any("not needed" in warning for warning in found.warnings)


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


def test_the_formats_that_save_asynchronously_are_named() -> None:
    named = re.search(r"the rest of the save drains in the background \(([^)]*), whose default it is\)", TEXT)
    assert named is not None
    formats = [word for word in re.findall(r"[a-z][a-z-]+", named[1]) if word != "and"]
    assert sorted(formats) == sorted(name for name, each in FORMATS.items() if "async" in each.modes)
    assert FORMATS[formats[-1]].modes[0] == "async"


def test_the_warnings_shown_are_those_of_their_commands() -> None:
    blocks = re.findall(r"^\$ ckpt-size (--.*)\n((?:\.\.\.\n|warning: .*\n)+)```", TEXT, re.MULTILINE)
    assert blocks
    for flags, printed in blocks:
        found = ckpt_size(*flags.split())
        said = " ".join((found.stdout + found.stderr).split())
        assert [line for line in printed.splitlines() if line != "..." and line not in said] == []
