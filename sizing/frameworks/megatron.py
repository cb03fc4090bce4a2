"""Megatron-LM."""

from __future__ import annotations

from sizing.frameworks.framework import (
    BF16_BESIDE_FP32,
    COLLECTIVE_TIMEOUT_SECONDS,
    FP16_BESIDE_FP32,
    FP32,
    CollectiveTimeout,
    Framework,
    KeptState,
    OffloadRule,
    RetentionRule,
)

_WITH_BF16 = KeptState(BF16_BESIDE_FP32, gradient_bytes=4)
"""Low-precision weights beside an fp32 master copy, and fp32 gradients. fp8, MXFP8 and NVFP4 are formats of matrix
products: weights that Transformer Engine holds in fp8 are saved as bf16."""

MEGATRON = Framework(
    name="megatron",
    title="Megatron-LM",
    version="d98e8a64ddf3 of 2026-08-22; saves of Megatron-Core 0.16.1",
    # Tensor ranks beyond the heads of keys and values share a head, each with rows of its own: linear_qkv of
    # SelfAttention is column-parallel over all tensor ranks. Seen in saves of 2 heads on 4 ranks and of 1 on 8.
    key_value_heads="cut",
    # core/transformer/transformer_block.py, get_num_layers_to_build.
    uneven_stages_by="--pipeline-model-parallel-layout",
    state_space_groups="divided",  # core/ssm/mamba_mixer.py: ngroups must be evenly divisible by tp_size
    keeps={
        "bf16-mixed": _WITH_BF16,
        # 20 bytes per parameter in all, or 4 + 16/d: the optimizer has an fp32 copy of fp16 gradients.
        "fp16-mixed": KeptState(FP16_BESIDE_FP32, gradient_bytes=2, optimizer_gradient_bytes=4),
        "fp8-mixed": _WITH_BF16,
        "mxfp8-mixed": _WITH_BF16,
        "nvfp4-mixed": _WITH_BF16,
        "fp32": KeptState(FP32, gradient_bytes=4),
    },
    shards="optimizer",
    gradient_exchange="fused",
    offload=OffloadRule(
        optimizer=("host",),
        weights=(),
        takes_fraction=True,
        host_gradients="fp32",
        needs_distributed_optimizer="--use-precision-aware-optimizer",
        moves_activations=True,
        flag="--optimizer-cpu-offload",
        source="Megatron-LM, core/optimizer/cpu_offloading/hybrid_optimizer.py, whose copies of gradients on the host "
        "have the dtype of its fp32 parameters; --fine-grained-activation-offloading",
    ),
    # --transformer-impl is transformer_engine, and --cross-entropy-loss-fusion is off.
    kernels="transformer-engine",
    loss="vocab-parallel",
    compiles=False,
    attention_of_torch=False,
    lists_operations=False,
    counts_layers=True,  # --recompute-num-layers
    keeps_passed=False,
    hides_exchange_of=frozenset({"layers"}),
    hides_sends_of=frozenset({"interleaved"}),
    exchange_source="Megatron-LM, megatron/training/arguments.py: overlap_p2p_comm is on, and set to False without an "
    "interleaved schedule; --tp-comm-overlap, --overlap-moe-expert-parallel-comm, --overlap-grad-reduce and "
    "--overlap-param-gather are off; Megatron-FSDP fetches the next layer meanwhile",
    retention=RetentionRule(
        "--save-retain-interval",
        "after-save",
        "Megatron-LM, training/checkpointing.py, save_checkpoint: once the next is there, the last one goes unless its "
        "iteration is a multiple; without the flag all stay",
    ),
    format="torch-dist",
    loading="each replica reads all weights that it holds: ckpt_fully_parallel_load is off",
    distributed_optimizer=False,
    optimizer_sharding="dp-reshardable",
    collective_timeout=CollectiveTimeout(
        COLLECTIVE_TIMEOUT_SECONDS,
        "--distributed-timeout-minutes {minutes}",
        "NVIDIA/Megatron-LM, megatron/training/config/common_config.py, distributed_timeout_minutes, 058300773c2b",
    ),
    source="published/framework_defaults.json: ckpt_format, ckpt_fully_parallel_load, use_distributed_optimizer, "
    "dist_ckpt_optim_fully_reshardable (off); Megatron-LM documentation, distributed optimizer, and "
    "dist_checkpointing/strategies/filesystem_async.py, which dequantizes; 14 bytes per parameter with Adam in "
    "published/published_checkpoints.json; Megatron-Core 0.16.1, core/transformer/attention.py",
)
