"""MaxText, on GPUs."""

from __future__ import annotations

from sizing.frameworks.framework import (
    BF16,
    FP32,
    INTERVAL_FIELDS,
    CollectiveTimeout,
    Framework,
    KeptState,
    OffloadRule,
    RetentionRule,
    ShippedDefault,
    shipped_interval,
)

MAXTEXT = Framework(
    name="maxtext",
    title="MaxText",
    version="e6b06efc6c9b; saves of Orbax 0.12",
    key_value_heads="repeated",
    # fp32 parameters alone; gradients have the dtype of the weights (jax.grad).
    keeps={
        "bf16-mixed": KeptState(FP32, gradient_bytes=4),
        "fp32": KeptState(FP32, gradient_bytes=4),
        "bf16": KeptState(BF16, gradient_bytes=2),
    },
    shards="mesh-axes",
    gradient_exchange="layers",
    offload=OffloadRule(
        optimizer=("host",),
        weights=("host",),
        updates_on_gpu=True,
        moves_activations=True,
        flag="optimizer_memory_host_offload and parameter_memory_host_offload",
        source="MaxText, configs/base.yml, train.py, which puts the optimizer state on the device before the "
        "update; remat_policy for activations",
    ),
    # jit compiles the step, max_utils.cross_entropy_with_logits with it.
    kernels="compiled",
    loss="compiled",
    compiles=True,
    attention_of_torch=False,
    lists_operations=False,
    counts_layers=False,  # it goes by lists of operations
    keeps_passed=False,
    # utils/gradient_accumulation.py: a scan adds gradients up that have the sharding of the parameters.
    hides_exchange_of=frozenset({"layers"}),
    exchange_source="MaxText: XLA's latency-hiding scheduler moves all-gathers of weights beside the layer before; "
    "collective matrix products are off (xla_gpu_multi_streamed_windowed_einsum)",
    retention=RetentionRule(
        "max_num_checkpoints_to_keep",
        "after-save",
        "Orbax, checkpoint_manager.py, save and _finalize: checkpoints that the preservation policy drops go once the "
        "next is committed; without a limit all stay",
    ),
    keeps_base_as_trained=True,  # weight_dtype float32 is that of all weights
    format="orbax",
    collective_timeout=CollectiveTimeout(
        1200.0,
        "orbax.checkpoint.AsyncOptions(timeout_secs={seconds})",
        "Orbax 0.12.8, checkpoint/options.py, AsyncOptions: barrier of all processes behind their writes",
        is_of_nccl=False,
    ),
    loading="every process reads its slices of every array",
    defaults=(ShippedDefault("checkpoint.mode", "async", "async_checkpointing"),),
    not_taken={INTERVAL_FIELDS: shipped_interval("MaxText checkpoint_period", 10_000)},
    source="MaxText, configs/base.yml: weight_dtype, mu_dtype; published/framework_defaults.json: async_checkpointing, "
    "checkpoint_period; it saves through Orbax alone",
)
