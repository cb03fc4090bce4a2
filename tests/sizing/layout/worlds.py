"""Small scenarios of any checkpoint format, made from what the format says that it takes."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from sizing.frameworks import FRAMEWORKS
from sizing.layout.formats import CheckpointFormat
from sizing.state.optimizers import Optimizer, needs_whole_matrices
from sizing.state.training import FrameworkName

MIXTURE: dict[str, Any] = {
    "family": "deepseek",
    "hidden_size": 64,
    "num_layers": 7,
    "num_attention_heads": 8,
    "vocab_size": 203,
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 24,
    "num_experts": 8,
    "num_experts_per_token": 2,
    "num_shared_experts": 1,
    "first_dense_layers": 2,
    "q_lora_rank": 12,
    "kv_lora_rank": 10,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2,
    "v_head_dim": 4,
    "num_mtp_layers": 1,
    "tied_embeddings": False,
}
TIED: dict[str, Any] = {
    "family": "llama",
    "hidden_size": 48,
    "num_layers": 7,
    "num_attention_heads": 12,
    "num_kv_heads": 2,
    "vocab_size": 101,
    "ffn_hidden_size": 36,
    "tied_embeddings": True,
}
"""Fewer heads for keys and values than tensor ranks, and an embedding that two stages of a pipeline hold."""
HYBRID: dict[str, Any] = {
    "model_type": "qwen3_next",
    "hidden_size": 40,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 101,
    "intermediate_size": 36,
    "moe_intermediate_size": 12,
    "shared_expert_intermediate_size": 12,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "mlp_only_layers": [0, 3, 4],
    "full_attention_interval": 3,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 4,
}
"""Attention in every third layer, experts in layers 1, 2, 5 and 6."""

STAGES: list[dict[str, Any]] = [
    {"pipeline": 3, "first_stage_layers": 1, "last_stage_layers": 2},
    {"pipeline": 4, "embedding_counts_as_layer": True, "loss_counts_as_layer": True},
    {"pipeline": 3, "layers_per_stage": [4, 0, 3]},
]
VIRTUAL_STAGES: list[dict[str, Any]] = [
    {"pipeline": 3, "virtual_pipeline": 3},
    {"pipeline": 4, "virtual_pipeline": 2, "embedding_counts_as_layer": True, "loss_counts_as_layer": False},
    {"pipeline": 2, "virtual_pipeline": 4, "embedding_counts_as_layer": False, "loss_counts_as_layer": True},
    {"pipeline": 2, "virtual_pipeline": 2, "layers_per_stage": [3, 1, 0, 3]},
]
"""Ways to deal seven layers over stages that are not alike."""

OPTIMIZERS = get_args(Optimizer)
DIVISORS = (1, 2, 3, 4, 6, 8)


def document(
    saved_as: CheckpointFormat, framework: FrameworkName, degrees: dict[str, Any], **blocks: Any
) -> dict[str, Any]:
    """A scenario in that format."""
    return {
        "model": {"architecture": MIXTURE},
        "training": training(saved_as, framework),
        "parallelism": degrees,
        "checkpoint": whole(saved_as),
    } | blocks


def whole(saved_as: CheckpointFormat) -> dict[str, Any]:
    """Files in that format, without its own compression: to the byte what their tensors are."""
    return {"format": saved_as.name} | ({"stored_fraction": 1.0} if "stored_fraction" in saved_as.takes else {})


def training(saved_as: CheckpointFormat, framework: FrameworkName, **fields: Any) -> dict[str, Any]:
    """How the framework trains what the format can save."""
    needed = {"distributed_optimizer": True} if saved_as.needs_distributed_optimizer else {}
    return {"framework": framework} | fields | needed


@st.composite
def documents(draw: st.DrawFn, saved_as: CheckpointFormat, framework: FrameworkName) -> dict[str, Any]:
    """Scenarios in that format, of three models, any optimizer and nodes of some sizes."""
    model = draw(st.sampled_from([{"architecture": MIXTURE}, {"architecture": TIED}, {"huggingface_config": HYBRID}]))
    checkpoint = whole(saved_as)
    if "files_per_rank" in saved_as.takes:
        checkpoint["files_per_rank"] = draw(st.sampled_from([None, 1, 2]))
    few_heads = model != {"architecture": MIXTURE} and FRAMEWORKS[framework].key_value_heads == "once"
    is_distributed = "distributed_optimizer" in saved_as.takes and draw(st.booleans())
    if "optimizer_sharding" in saved_as.takes and is_distributed:
        checkpoint["optimizer_sharding"] = draw(st.sampled_from([None, "dp-reshardable", "fully-reshardable"]))
    cuts_rows = "shard_group" in saved_as.takes or FRAMEWORKS[framework].shards == "fsdp"
    optimizers = [each for each in OPTIMIZERS if not (cuts_rows and needs_whole_matrices(each))]
    return document(
        saved_as,
        framework,
        draw(degrees(saved_as, has_experts=model != {"architecture": TIED}, max_tensor=2 if few_heads else 4)),
        model=model,
        training=training(
            saved_as,
            framework,
            optimizer=draw(st.sampled_from(optimizers)),
            distributed_optimizer=is_distributed,
        ),
        checkpoint=checkpoint,
        cluster={"node": None, "node_spec": {"gpus_per_node": draw(st.sampled_from([1, 3, 4, 8]))}},
    )


@st.composite
def degrees(
    draw: st.DrawFn, saved_as: CheckpointFormat, *, has_experts: bool = True, max_tensor: int = 4
) -> dict[str, Any]:
    """Degrees that the format takes, of 168 stages x ranks at most."""
    takes = saved_as.takes
    tensor = draw(st.sampled_from([n for n in (1, 2, 4) if n <= max_tensor])) if "tensor" in takes else 1
    expert = draw(st.sampled_from([1, 2, 4, 8])) if "expert" in takes and has_experts else 1
    found: dict[str, Any] = {
        "tensor": tensor,
        "pipeline": draw(st.integers(1, 7)) if "pipeline" in takes else 1,
        "expert": expert,
        "data": expert * draw(st.sampled_from([1, 2, 3] if expert > 1 else [1, 2, 3, 6, 8])),
        "context": draw(st.integers(1, 2)),
    }
    if "pipeline" in takes and draw(st.booleans()):
        found |= draw(st.sampled_from(STAGES + (VIRTUAL_STAGES if "virtual_pipeline" in takes else [])))
    if "expert_tensor" in takes and has_experts:
        found["expert_tensor"] = draw(st.sampled_from([n for n in (1, 2, 4) if n <= tensor]))
    if "zero_stage" in takes:
        cuts_experts = expert > 1 and tensor * found["context"] > 1
        highest = 1 if found["pipeline"] > 1 else 2 if cuts_experts else 3  # as DeepSpeed takes them together
        found["zero_stage"] = draw(st.sampled_from([None, *range(highest + 1)]))
    if "shard_group" in takes:
        replicas, of_experts = found["data"] * found["context"], expert * found.get("expert_tensor", tensor)
        groups = [n for n in DIVISORS if replicas % n == 0 == tensor * n % of_experts]
        found["shard_group"] = draw(st.sampled_from([None, *groups]))
    return found
