"""A framework of somebody else: all that one needs is this module, and its row in FRAMEWORKS."""

from __future__ import annotations

from typing import cast

from sizing.frameworks.framework import BF16_BESIDE_FP32, NO_DELETION, Framework, KeptState, OffloadRule
from sizing.state.training import FrameworkName

TOY = Framework(
    name=cast("FrameworkName", "toy"),
    title="Toy",
    version="1",
    key_value_heads="once",
    keeps={"bf16-mixed": KeptState(BF16_BESIDE_FP32, gradient_bytes=2)},
    shards="fsdp",
    gradient_exchange="layers",
    offload=OffloadRule(
        optimizer=("host",),
        weights=(),
        takes_fraction=True,
        host_gradients="as computed",
        flag="--toy-offload",
        source="an example for these tests",
    ),
    kernels="compiled",
    loss="fused",
    compiles=False,
    attention_of_torch=False,
    lists_operations=False,
    counts_layers=True,
    keeps_passed=False,
    hides_exchange_of=frozenset(),
    exchange_source="an example for these tests",
    retention=NO_DELETION,
    format="fsdp-sharded",
    loading="each rank reads its own shards",
    source="an example for these tests",
)
