"""Which part a tensor is, by its name: the names that frameworks write, and those that say nothing."""

import pytest

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.parts import parts_of


def parts(*tensors: tuple[str, str, tuple[int, ...]], is_state_dict: bool = False) -> list[str]:
    stored = tuple(StoredTensor(name, dtype, shape, 4, 8) for name, dtype, shape in tensors)
    return list(parts_of(Container("torch-save", (), stored, is_state_dict=is_state_dict)))


@pytest.mark.parametrize(
    ("name", "part"),
    [
        # torch.save of {"model": ..., "optimizer": ...}
        ("model.layers.0.mlp.weight", "weights"),
        ("model.layers.0.mixer.A_log", "weights"),
        ("optimizer.state.0.exp_avg", "moments"),
        ("optimizer.state.0.max_exp_avg_sq", "moments"),
        ("optimizer.state.0.momentum_buffer", "moments"),
        ("optimizer.state.0.step", "other"),
        ("state.0.exp_avg_sq", "moments"),
        ("state.0.sum", "moments"),
        ("state.0.state1", "moments"),
        ("state.0.absmax1", "other"),
        # FSDP2 and torchtitan through DCP
        ("optim.state.layers.0.weight.exp_avg", "moments"),
        ("optimizer.state.tok_embeddings.weight.step", "other"),
        ("optim.param_groups.layers.0.weight.lr", "other"),
        ("app.model.layers.0.weight", "weights"),
        # Megatron, torch and torch_dist
        ("model0.language_model.embedding.word_embeddings.weight", "weights"),
        ("decoder.layers.self_attention.linear_qkv.layer_norm_weight", "weights"),
        ("decoder.layers.mlp.experts.local_experts.linear_fc1.weight0", "weights"),
        ("decoder.layers.mlp.linear_fc1._extra_state/shard_0_24", "other"),
        ("optimizer.state.fp32_param.decoder.final_layernorm.weight", "master"),
        ("optimizer.state.exp_avg.decoder.final_layernorm.weight", "moments"),
        ("optimizer.fp32_from_fp16_params.0.3", "master"),
        ("optimizer.shard_fp32_from_float16_groups.0.3", "master"),
        ("rng_state.0.torch_rng_state", "other"),
        ("rng_state/shard_0_1", "other"),
        # DeepSpeed
        ("module.layers.0.weight", "weights"),
        ("optimizer_state_dict.base_optimizer_state.state.0.exp_avg", "moments"),
        ("optimizer_state_dict.single_partition_of_fp32_groups.0", "master"),
        ("optimizer_state_dict.optimizer_state_dict.fp32_flat_groups.0", "master"),
        ("optimizer_state_dict.fp32_groups_flat.0", "master"),
        ("optimizer.fp32_groups.0.3", "master"),
        # a script's own copy, and a module of that name
        ("master.layers.0.mlp.weight", "master"),
        ("main_params.0", "master"),
        ("optimizer.fp32_from_fp16.0.3", "master"),
        ("model_fp32.layers.0.norm.weight", "master"),
        ("state_dict.master.weight", "weights"),
        # Lightning
        ("state_dict.encoder.cls_token", "weights"),
        ("optimizer_states.0.state.0.exp_avg", "moments"),
        # buffers, copies, scales
        ("model.layers.0.running_mean", "other"),
        ("model.rotary_emb.inv_freq", "other"),
        ("ema.model.layers.0.weight", "other"),
        ("model.layers.0.mlp.down_proj.weight_scale_inv", "other"),
        ("model.layers.0.mlp.experts.gate_up_proj_scales", "other"),
        # names that say nothing
        ("cpu", "other"),
        ("tensor", "other"),
        ("param", "other"),
        ("weight", "weights"),
        ("", "other"),
        ("...", "other"),
    ],
)
def test_a_name_tells_its_part_or_stays_other(name: str, part: str) -> None:
    assert parts((name, "float32", (2, 2))) == [part]


def test_a_param_is_master_beside_its_moment_only() -> None:
    assert parts(("0.param", "float32", (2,)), ("0.exp_avg", "float32", (2,))) == ["master", "moments"]
    assert parts(("0.param", "float32", (2,)), ("1.exp_avg", "float32", (2,))) == ["other", "moments"]


def test_tensors_without_a_telling_name_are_weights_in_the_state_of_a_module_only() -> None:
    tensors = [("cls_token", "float32", (2,)), ("head.weight", "float32", (2,))]
    assert parts(*tensors, is_state_dict=True) == ["weights", "weights"]
    assert parts(*tensors) == ["other", "weights"]
    assert parts(tensors[0], is_state_dict=True) == ["other"]


def test_a_branch_is_a_master_copy_where_the_container_is_more_than_a_module() -> None:
    tensors = [("master.0.weight", "float32", (2,)), ("head.0.weight", "bfloat16", (2,))]
    assert parts(*tensors, is_state_dict=True) == ["weights", "weights"]
    tensors[1] = ("model.0.weight", "bfloat16", (2,))
    assert parts(*tensors, is_state_dict=True) == ["master", "weights"]


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64"])
def test_dtypes_that_hold_no_weights_are_other(dtype: str) -> None:
    assert parts(("model.embeddings.weight", dtype, (2,))) == ["other"]


def test_the_causal_mask_of_gpt2_is_a_buffer() -> None:
    assert parts(("h.0.attn.bias", "float32", (1, 1, 1024, 1024))) == ["other"]
    assert parts(("h.0.attn.bias", "float32", (768,))) == ["weights"]
