"""Real torch models taken through a step by a plan: the bytes that are saved, and the gradients."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from sizing.training.rematerialization.chain import ChainLayer, LayerChain, RecomputationPlan, sqrt_plan
from sizing.training.rematerialization.dynamic_programs import revolve, rotor, smallest

BATCH = 8
WIDTHS = (16, 16, 64, 16, 16, 32, 16)
FACTORS = (4, 1, 2, 8, 4, 4)


class Block(nn.Sequential):
    def __init__(self, before: int, after: int, factor: int) -> None:
        super().__init__(nn.Linear(before, factor * before), nn.GELU(), nn.Linear(factor * before, after))


def model() -> list[Block]:
    torch.manual_seed(5)
    blocks = zip(pairwise(WIDTHS), FACTORS, strict=True)
    return [Block(before, after, factor).double() for (before, after), factor in blocks]


def chain() -> LayerChain:
    """Of a block, backward needs its input, what goes into the activation function and what comes out: 8 bytes each."""
    layers = [
        ChainLayer(
            2 * factor * before * before, 4 * factor * before * before, 8 * BATCH * before, 16 * BATCH * factor * before
        )
        for before, factor in zip(WIDTHS, FACTORS, strict=False)
    ]
    return LayerChain(tuple(layers), 8 * BATCH * WIDTHS[-1])


class Walk:
    """Carries a plan out, and counts what it keeps: inputs, and what autograd saves of blocks, storage by storage."""

    def __init__(self, blocks: list[Block], data: torch.Tensor) -> None:
        self.blocks, self.inputs, self.at = blocks, {0: data}, 0
        self.value: torch.Tensor | None = data
        self.outputs: dict[int, torch.Tensor] = {}
        self.saved: dict[int, list[torch.Tensor]] = {}
        self.gradient = torch.ones(BATCH, WIDTHS[-1], dtype=torch.float64)
        self.peak = 0

    def run(self, plan: RecomputationPlan) -> None:
        for layer, keep in plan.steps:
            if keep is None:
                self.back(layer)
                continue
            data = self.inputs.get(layer, self.value)
            assert data is not None
            assert layer in self.inputs or self.at == layer
            if keep != "nothing":
                self.inputs[layer] = data
            self.value = self.forward(layer, data, keeps_all=keep == "all")
            self.at = layer + 1
            self.peak = max(self.peak, self.kept_bytes())

    def forward(self, layer: int, data: torch.Tensor, *, keeps_all: bool) -> torch.Tensor:
        if not keeps_all:
            with torch.no_grad():
                return self.blocks[layer](data)  # type: ignore[no-any-return]  # a module's call is untyped
        leaf = data.detach().requires_grad_()
        self.inputs[layer], saved = leaf, []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            saved.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self.outputs[layer] = self.blocks[layer](leaf)
        self.saved[layer] = saved
        return self.outputs[layer].detach()

    def back(self, layer: int) -> None:
        self.outputs.pop(layer).backward(self.gradient)  # type: ignore[no-untyped-call]  # torch has no type for it
        gradient = self.inputs.pop(layer).grad
        assert gradient is not None
        self.gradient = gradient
        del self.saved[layer]

    def kept_bytes(self) -> int:
        weights = {each.untyped_storage().data_ptr() for block in self.blocks for each in block.parameters()}
        tensors = [*self.inputs.values(), *(each for saved in self.saved.values() for each in saved)]
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in tensors}
        return sum(num_bytes for place, num_bytes in storages.items() if place not in weights)


def planned_bytes(plan: RecomputationPlan) -> float:
    """The max of inputs and of what backward needs, by the sizes of the chain alone."""
    links, inputs, most = chain().layers, {0}, 0.0
    kept: set[int] = set()
    for layer, keep in plan.steps:
        if keep is None:
            inputs, kept = inputs - {layer}, kept - {layer}
            continue
        inputs = inputs if keep == "nothing" else inputs | {layer}
        kept = kept | {layer} if keep == "all" else kept
        held = sum(links[each].input_bytes for each in inputs) + sum(links[each].kept_bytes for each in kept)
        most = max(most, held)
    return most


PLANS = {
    "sqrt": sqrt_plan(chain()),
    "revolve, 2 inputs": revolve(chain(), 2),
    "smallest": smallest(chain()),
    "rotor, least": rotor(chain(), smallest(chain()).peak_bytes * 1.01),
    "rotor, between": rotor(chain(), smallest(chain()).peak_bytes * 1.6),
    "rotor, one by one": rotor(chain(), smallest(chain()).peak_bytes * 1.6, max_segment=1),
    "all kept": rotor(chain(), 1e9),
}


@pytest.mark.parametrize("name", PLANS)
def test_torch_saves_what_the_plan_says_and_finds_the_same_gradients(name: str) -> None:
    data = torch.randn(BATCH, WIDTHS[0], dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    plain, planned = model(), model()
    nn.Sequential(*plain)(data).backward(torch.ones(BATCH, WIDTHS[-1], dtype=torch.float64))
    walk = Walk(planned, data.clone())
    walk.run(PLANS[name])
    assert walk.peak == planned_bytes(PLANS[name])
    for block, other in zip(plain, planned, strict=True):
        for mine, theirs in zip(block.parameters(), other.parameters(), strict=True):
            assert mine.grad is not None
            assert theirs.grad is not None
            assert torch.equal(mine.grad, theirs.grad)


def test_the_plans_differ() -> None:
    assert len({plan.steps for plan in PLANS.values()}) == len(PLANS)
    assert PLANS["rotor, between"].extra_time > 0 == PLANS["all kept"].extra_time
