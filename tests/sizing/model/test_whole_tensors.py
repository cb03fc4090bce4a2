"""Which tensors of a layer no rank holds in pieces, under which names."""

from __future__ import annotations

import pytest

from sizing.model import catalog
from sizing.model.inventory import inventory_of

WITH_EXPERTS = sorted(
    name for name, model in catalog().items() if model.architecture and model.architecture.num_experts
)


@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_the_router_of_experts_stays_whole(name: str) -> None:
    architecture = catalog()[name].architecture
    assert architecture is not None
    routers = [group for group in inventory_of(architecture) if group.name == "router"]
    assert routers
    assert {group.pieces for group in routers} == {1}


def test_the_gate_of_a_shared_expert_stays_whole_too() -> None:
    architecture = catalog()["qwen1.5-moe-a2.7b"].architecture
    assert architecture is not None
    gates = [group for group in inventory_of(architecture) if group.name == "shared_expert.gate"]
    assert {(group.pieces, group.shape) for group in gates} == {(1, (1, architecture.hidden_size))}
