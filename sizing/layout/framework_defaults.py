"""What a framework does where a scenario leaves it open."""

from __future__ import annotations

from sizing.state.training import Framework

FORMAT_OF_FRAMEWORK: dict[Framework, str] = {
    "megatron": "megatron",
    "fsdp2": "fsdp-sharded",
    "deepspeed": "deepspeed",
}
"""The format that is taken where none is given."""

DEEPSPEED_ZERO_STAGE = 1
"""ZeRO stage of DeepSpeed where none is given."""
