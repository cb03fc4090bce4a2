"""DeepSpeed with ZeRO."""

from __future__ import annotations

from dataclasses import replace

from sizing.frameworks.framework import (
    BF16_BESIDE_FP32,
    FP16_BESIDE_FP32,
    FP32,
    NO_DELETION,
    CollectiveTimeout,
    DegreesTogether,
    Framework,
    KeptState,
    OffloadRule,
    shipped_detection,
)

DEFAULT_ZERO_STAGE = 1
"""ZeRO stage of a scenario that gives none."""

_TIMEOUT = CollectiveTimeout(
    600.0,
    "DEEPSPEED_TIMEOUT={minutes}",
    "DeepSpeed 0.19.8, deepspeed/constants.py, default_pg_timeout, 1800 s before 0.19.6; "
    "deepspeed.init_distributed(timeout=...) in code",
)

_OF_AUTOEP = "DeepSpeed 0.19.8, runtime/engine.py, _validate_zero3_moe_compatibility"

DEEPSPEED = Framework(
    name="deepspeed",
    title="DeepSpeed",
    version="0.19; defaults of edaa72212672 of 2026-08-22",
    key_value_heads="repeated",
    keeps={
        "bf16-mixed": KeptState(BF16_BESIDE_FP32, gradient_bytes=2),
        "fp16-mixed": KeptState(FP16_BESIDE_FP32, gradient_bytes=2),
        "fp32": KeptState(FP32, gradient_bytes=4),
    },
    shards="zero",
    gradient_exchange="buckets",
    offload=OffloadRule(
        optimizer=("host", "nvme"),
        weights=("host", "nvme"),
        takes_fraction=True,
        gradients_leave=True,
        host_gradients="fp32",
        # stage_1_and_2.py, async_accumulate_grad_in_cpu_via_gpu; stage3.py, partition_grads.
        adds_gradients="on the GPU",
        overlaps_update=True,
        flag="offload_optimizer and offload_param",
        source="Ren et al. 2021, arXiv 2101.06840; Rajbhandari et al. 2021, arXiv 2104.07857; DeepSpeed 0.19, "
        "runtime/zero/config.py, offload_config.py, estimate_zero3_model_states_mem_needs, which counts fp32 gradients",
    ),
    # The loop is the user's own, as with FSDP2.
    kernels="eager",
    loss="eager",
    compiles=True,
    attention_of_torch=True,
    lists_operations=False,
    counts_layers=False,  # the model's own code says what is computed again
    keeps_passed=False,
    # runtime/engine.py, allreduce_gradients: ZeRO 2 and 3 reduce where accumulation goes on, too.
    hides_exchange_of=frozenset({"modules"}),
    exchange_source="DeepSpeed, runtime/zero/config.py: overlap_comm is on with ZeRO 3 alone; runtime/pipe/engine.py "
    "waits for its sends",
    retention=replace(NO_DELETION, source="DeepSpeed 0.19, runtime/engine.py, save_checkpoint: it deletes no tag"),
    format="deepspeed",
    converts_to_universal=True,
    defaults=(shipped_detection(_TIMEOUT.seconds, "DEEPSPEED_TIMEOUT 10 min"),),
    collective_timeout=_TIMEOUT,
    degrees_together=(
        DegreesTogether({"zero_stage": 2, "pipeline": 2}, "DeepSpeed 0.19.8, runtime/pipe/engine.py"),
        DegreesTogether({"zero_stage": 3, "expert": 2, "context": 2}, _OF_AUTOEP),
        # Its experts are whole, and here the tensor ranks cut them.
        DegreesTogether({"zero_stage": 3, "expert": 2, "tensor": 2}, _OF_AUTOEP),
        DegreesTogether(
            {"zero_stage": 3, "expert": 2},
            _OF_AUTOEP,
            warning="ZeRO 3 with expert ranks needs DeepSpeed's AutoEP (expert_parallel in its config). Its own MoE "
            "layer is refused with ZeRO 3, so with that layer give parallelism.zero_stage 2",
        ),
    ),
    loading="each replica reads the weights that it holds, each shard of the optimizer is read once",
    source="published/framework_defaults.json: checkpoint engine; saves in published/framework_checkpoints.json; "
    "Rajbhandari et al. 2020, arXiv 1910.02054, and published/zero_model_state_memory.json for gradients",
)
