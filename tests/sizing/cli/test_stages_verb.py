"""`ckpt-size stages`, as its user runs it: what it prints to apply a plan can be typed."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.testbed.terminal import ckpt_size

RUN = (
    "--model llama-3.1-70b --tensor 8 --pipeline 8 --data 2 --sequence-length 4096 --micro-batch 1 --global-batch 256"
).split()
OLD_AND_NEW = ("--nodes", "8xdgx-a100,8xdgx-h100")


def what_applies_it(verb: str, *arguments: str) -> str:
    """The end of the line that says how the plan is applied, wherever the terminal broke it."""
    shown = " ".join(ckpt_size(verb, *arguments).stdout.split())
    found = re.search(r"To apply it: (.*)", shown)
    assert found is not None, shown
    return found[1]


def typed_back(*arguments: str) -> dict[str, Any]:
    answered = ckpt_size("stages", *RUN, *arguments, "--json")
    assert answered.returncode == 0, answered.stderr
    document: dict[str, Any] = json.loads(answered.stdout)
    return document


def test_the_flags_that_apply_a_plan_are_typed_as_they_are_printed() -> None:
    flags = what_applies_it("stages", *RUN, *OLD_AND_NEW)
    assert flags == "--layers-per-stage 14,14,6,6,6,6,14,14 --nodes 4xdgx-h100,8xdgx-a100,4xdgx-h100"
    again = typed_back(*shlex.split(flags))
    assert (again["gain_fraction"], again["change"]) == (0.0, {})


def test_a_technique_that_balances_stages_prints_flags_that_can_be_typed() -> None:
    shown = " ".join(ckpt_size("techniques", "Pipe-torch", *RUN, *OLD_AND_NEW).stdout.split())
    [layers], [nodes] = re.findall(r"--layers-per-stage \S+", shown), re.findall(r"--nodes \S+", shown)
    assert typed_back(*layers.split(), *nodes.split())["gain_fraction"] == 0.0


@pytest.mark.parametrize("other", ["--first-stage-layers", "--last-stage-layers"])
def test_a_flag_that_the_plan_replaces_is_to_be_left_out(other: str) -> None:
    applied = what_applies_it("stages", *RUN, *OLD_AND_NEW, other, "8")
    flags, left_out = applied.split("; ")
    assert left_out == f"without {other}"
    assert typed_back(*shlex.split(flags))["gain_fraction"] == 0.0


def test_nodes_that_no_text_stands_for_are_printed_as_a_file_has_them(tmp_path: Path) -> None:
    fast = {
        "gpus_per_node": 8,
        "gpu": "h100",
        "gpu_memory_bytes": "80 GB",
        "compute_network_bytes_per_second": "400 GB/s",
    }
    path = tmp_path / "nodes.yaml"
    path.write_text(yaml.safe_dump({"cluster": {"nodes": ["8 x dgx-a100", {"count": 8, "node_spec": fast}]}}))
    flags, block = what_applies_it("stages", str(path), *RUN).split("; ")
    path.write_text(block)
    assert typed_back(str(path), *shlex.split(flags))["gain_fraction"] == 0.0


def test_the_guide_has_the_gain_that_its_command_prints() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "explore.md").read_text()
    section = guide.partition("## Unlike nodes: `ckpt-size stages`")[2].partition("\n## ")[0]
    command = re.search(r"\$ ckpt-size (stages.*?)\n```", section, re.DOTALL)
    assert command is not None
    shown = ckpt_size(*shlex.split(command[1].replace("\\\n", " "))).stdout
    gain = re.search(r"[0-9.]+ % more tokens per second", shown)
    assert gain is not None
    assert gain[0] in " ".join(section.split())
