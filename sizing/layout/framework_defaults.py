"""What a framework does where a scenario leaves it open."""

from __future__ import annotations

from sizing.state.training import Framework

FORMAT_OF_FRAMEWORK: dict[Framework, str] = {
    "megatron": "torch-dist",
    "fsdp2": "fsdp-sharded",
    "deepspeed": "deepspeed",
}
"""The format that is taken where none is given.

Sources: `ckpt_format` of Megatron-LM and the checkpoint engine of DeepSpeed in published/framework_defaults.json;
FSDP2 leaves it to the trainer, and torchtitan and NeMo AutoModel both save shards.
"""

MEGATRON_DISTRIBUTED_OPTIMIZER = False
"""Whether Megatron-LM's optimizer is distributed where nothing is said.

Source: `use_distributed_optimizer` of Megatron-LM in published/framework_defaults.json.
"""

DEEPSPEED_ZERO_STAGE = 1
"""ZeRO stage of DeepSpeed where none is given."""
