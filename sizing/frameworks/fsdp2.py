"""FSDP2 of PyTorch, in a user's own training loop, Hugging Face accelerate or NeMo AutoModel."""

from __future__ import annotations

from sizing.frameworks.framework import BF16, FP32, NO_DELETION, Framework, KeptState, OffloadRule

MIXED = KeptState(FP32, gradient_bytes=4)
"""fp32 parameters alone, whatever the matrix products take: torchao converts the weights for each product."""

FSDP2 = Framework(
    name="fsdp2",
    title="PyTorch FSDP2",
    version="torch 2.13",
    # DTensor cuts the outputs of a projection evenly, also within a head, and attention then cannot tell heads apart.
    key_value_heads="once",
    keeps={
        "bf16-mixed": MIXED,
        "fp16-mixed": MIXED,
        "fp8-mixed": MIXED,
        "mxfp8-mixed": MIXED,
        "nvfp4-mixed": MIXED,
        "fp32": MIXED,
        "bf16": KeptState(BF16, gradient_bytes=2),
    },
    shards="fsdp",
    gradient_exchange="layers",
    offload=OffloadRule(
        optimizer=("host",),
        weights=("host",),
        is_joint=True,
        gradients_leave=True,
        host_gradients="as computed",
        adds_gradients="on the host",  # _fsdp_collectives.py, foreach_reduce: to_accumulate_grad
        moves_activations=True,
        flag="CPUOffloadPolicy",
        source="PyTorch, torch/distributed/fsdp, CPUOffloadPolicy: parameters, gradients and optimizer lie on the "
        "host; torch.autograd.graph.save_on_cpu for activations",
    ),
    kernels="eager",
    loss="eager",
    compiles=True,
    attention_of_torch=True,
    lists_operations=False,
    counts_layers=True,  # the loop itself wraps layers
    keeps_passed=True,
    # _fsdp_param_group.py: reduce_grads and all_reduce_grads are on until set_requires_gradient_sync or
    # set_requires_all_reduce turns them off. torchtitan does neither to layers, nor does Lightning's Trainer.
    hides_exchange_of=frozenset({"layers"}),
    exchange_source="PyTorch: FSDP2 fetches the next layer while one computes; torch.distributed.pipelining waits for "
    "its sends; asynchronous tensor parallelism (torch._inductor.config._micro_pipeline_tp) is off",
    retention=NO_DELETION,
    # FSDP2 leaves the format to the trainer; torchtitan and NeMo AutoModel both save shards.
    format="fsdp-sharded",
    loading="each rank reads its own shards, and plans by .metadata",
    source="published/framework_defaults.json: fsdp_state_dict_type of accelerate; tried with torch 2.13: "
    "ColwiseParallel on 4 ranks, and saves in published/framework_checkpoints.json; torchao, float8/README.md and "
    "prototype/mx_formats/README.md",
)
