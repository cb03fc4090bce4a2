"""What stands beside the model's own state: padding, adapters, frozen parts, containers, small state."""

import json
from typing import Any

import pytest
from transformers import CONFIG_MAPPING, AutoConfig

from sizing.errors import InvalidInput
from sizing.layout.containers import metadata_bytes
from sizing.model.catalog import catalog
from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.sized_layout import saved_by_rank_of
from tests.examples import spread

HIDDEN, LAYERS, RANK = 4096, 32, 16


def report_of(training: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(scenario_from({"model": {"preset": "llama-2-7b"}, "training": training} | blocks))


@pytest.mark.parametrize(("tensor", "padded"), [(1, 50304), (8, 51200)])
def test_the_vocabulary_is_padded_to_a_multiple_times_the_tensor_degree(tensor: int, padded: int) -> None:
    """Megatron's GPT-2 vocabulary of 50,257 becomes 50,304, and 51,200 on 8 tensor ranks."""
    model = {"architecture": {"family": "gpt2", "hidden_size": 1024, "num_layers": 2, "num_attention_heads": 16}}
    model["architecture"]["vocab_size"] = 50257
    blocks: dict[str, Any] = {"model": model, "parallelism": {"tensor": tensor}}
    plain = report_of({}, **blocks)
    report = report_of({"vocabulary_padding_multiple": 128}, **blocks)
    assert report.model.num_parameters - plain.model.num_parameters == (padded - 50257) * 1024
    assumed = {a.field: a for a in report.assumptions}["model.architecture.vocab_size"]
    assert (assumed.value, assumed.reason) == (padded, "padded from 50257")
    not_padded = {a.field: a for a in plain.assumptions}["model.architecture.vocab_size"]
    assert "not padded" in not_padded.reason


def test_only_the_adapters_are_saved_unless_the_base_is_asked_for() -> None:
    adapters = {"rank": RANK, "tensors": ["attention.query", "attention.output"]}
    report = report_of({"adapters": adapters})
    adapter_parameters = LAYERS * 2 * 2 * RANK * HIDDEN
    assert report.model.num_trained_parameters == adapter_parameters
    assert report.checkpoint.logical_bytes == 14 * adapter_parameters
    with_base = report_of({"adapters": adapters | {"save_base": True}})
    assert with_base.checkpoint.logical_bytes == 14 * adapter_parameters + 2 * 6_738_415_616
    said = "A restart reads the frozen weights too, 13.48 GB in bf16 for each replica"
    assert [any(said in warning for warning in each.warnings) for each in (report, with_base)] == [True, False]


def test_adapters_are_cut_with_their_matrix() -> None:
    """Cut by outputs, the second adapter is dealt out and the first repeated; cut by inputs, the other way round."""
    adapters = {"rank": RANK, "tensors": ["attention.query", "ffn.down"]}
    report = report_of({"adapters": adapters}, parallelism={"tensor": 8}, checkpoint={"format": "megatron"})
    copies = {row.tensors: row.copies for row in report.checkpoint.replicated}
    assert copies == {"attention.query.adapter_in": 8, "ffn.down.adapter_out": 8}
    assert sum(c.num_ranks * c.bytes_per_rank for c in report.layout.rank_classes) == report.checkpoint.total_bytes


@pytest.mark.parametrize("preset", spread(catalog(), by_default=list(catalog())[::12]))
def test_every_preset_has_matrices_that_get_adapters_by_default(preset: str) -> None:
    report = answer({"model": {"preset": preset}, "training": {"framework": "fsdp2", "adapters": {"rank": 16}}})
    assert 0 < report.model.num_trained_parameters < report.model.num_parameters
    (assumed,) = (each for each in report.assumptions if each.field == "training.adapters.tensors")
    named = report_of({"adapters": {"rank": 16, "tensors": str(assumed.value).split(", ")}}, model={"preset": preset})
    assert named.model.num_trained_parameters == report.model.num_trained_parameters


@pytest.mark.parametrize("trainer", ["megatron-bridge", "nemo"])
@pytest.mark.parametrize("dora", [False, True])
def test_both_adapters_are_cut_by_the_parallel_layers_of_nemo_and_megatron_bridge(trainer: str, dora: bool) -> None:
    """ParallelLinearAdapter makes linear_in of a column-parallel base by rank rows, and every linear_out by outputs.

    So no rank repeats an adapter. Of DoRA the optimizer of each repeats magnitudes beside matrices cut by inputs.
    """
    training = {"framework": trainer, "adapters": {"rank": 32, "dora": dora}}
    report = report_of(training, model={"preset": "llama-3.1-70b"}, parallelism={"tensor": 8, "data": 2})
    outputs = 8192 + 2 * 1024 + 8192 + 2 * 28672 + 8192
    parameters = 80 * 32 * ((8192 + 10240) + 2 * 8192 + (8192 + 57344) + (28672 + 8192)) + dora * 80 * outputs
    assert report.checkpoint.logical_bytes == 14 * parameters
    repeated = {row.tensors: row.copies for row in report.checkpoint.replicated}
    assert repeated == ({"attention.output.magnitude": 8, "ffn.down.magnitude": 8} if dora else {})
    assert report.checkpoint.total_bytes == 14 * parameters + dora * 12 * 80 * 7 * 2 * 8192


PEFT_ADAPTS: dict[tuple[str, tuple[str, ...] | None], int] = {
    ("llama", ("attention",)): 16_777_216,
    ("llama", ("attention.query", "attention.value")): 8_388_608,
    ("llama", ("q_proj", "v_proj")): 8_388_608,
    ("llama", None): 8_388_608,
    ("gemma3_text", ("attention",)): 6_389_760,
    ("gemma3_text", ("attention.query", "attention.value")): 3_194_880,
    ("gemma3_text", None): 3_194_880,
    ("gpt_oss", ("attention",)): 11_943_936,
    ("glm4_moe", ("attention",)): 18_488_320,
    ("nemotron_h", None): 425_984,
    ("phi", None): 11_010_048,
    ("gpt_bigcode", None): 319_488,
    ("mpt", None): 3_145_728,
    ("codegen", None): 7_340_032,
    ("gpt_neo", None): 3_145_728,
    ("jamba", None): 1_703_936,
    ("deepseek_v32", ("attention",)): 97_006_592,
    ("llama4_text", ("attention",)): 25_165_824,
}
"""Parameters that PEFT 0.21 trains at rank 16 in the default config of a model type of transformers 5.23, built on the
meta device, with target_modules q_proj, k_proj, v_proj, o_proj (latent attention: q_a_proj, q_b_proj,
kv_a_proj_with_mqa, kv_b_proj, o_proj), q_proj and v_proj, or without any."""


@pytest.mark.parametrize(("model_type", "tensors"), list(PEFT_ADAPTS))
def test_adapters_have_the_parameters_that_peft_trains(model_type: str, tensors: tuple[str, ...] | None) -> None:
    config = json.loads(CONFIG_MAPPING[model_type]().to_json_string(use_diff=False))
    adapters = {"rank": 16} | ({"tensors": tensors} if tensors else {})
    report = report_of({"framework": "fsdp2", "adapters": adapters}, model={"huggingface_config": config})
    assert report.model.num_trained_parameters == PEFT_ADAPTS[model_type, tensors]


def test_a_model_of_which_no_attention_is_known_asks_for_the_names() -> None:
    sentence = "training.adapters.tensors is required for a model of which no attention is known"
    with pytest.raises(InvalidInput, match=sentence):
        report_of({"adapters": {"rank": 16}}, model={"num_parameters": 10**9})


@pytest.mark.parametrize(
    ("model_type", "layers", "trained"),
    [
        ("gpt2", "n_layer", 147_456),
        ("bloom", "n_layer", 12_288),
        ("falcon", "num_hidden_layers", 585_728),
        ("gpt_neox", "num_hidden_layers", 1_179_648),
        ("phi3", "num_hidden_layers", 589_824),
        ("llama", "num_hidden_layers", 1_048_576),
    ],
)
def test_adapters_of_attention_count_what_peft_trains(model_type: str, layers: str, trained: int) -> None:
    """What PEFT 0.21.2 counts in two layers of the default config, with rank 16 beside each module of attention."""
    config = AutoConfig.for_model(model_type, **{layers: 2}).to_json_string(use_diff=False)
    model = {"huggingface_config": json.loads(config)}
    adapters = {"rank": 16, "tensors": ["attention"]}
    assert report_of({"adapters": adapters}, model=model).model.num_trained_parameters == trained


@pytest.mark.parametrize(
    ("preset", "modules", "trained"),
    [
        ("qwen2.5-72b", "q_proj,v_proj", 32_768_000),
        ("qwen2.5-72b", None, 32_768_000),
        ("qwen2.5-72b", "all-linear", 210_534_400),
        ("qwen2.5-72b", "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", 210_534_400),
        ("gpt2", "c_attn", 589_824),
        ("gpt2", None, 589_824),
        ("gpt2", "c_attn,c_proj,c_fc", 2_359_296),
        ("falcon-7b", "query_key_value", 4_718_592),
        ("falcon-7b", None, 4_718_592),
        ("falcon-7b", "query_key_value,dense,dense_h_to_4h,dense_4h_to_h", 32_636_928),
        ("phi-4", "qkv_proj,o_proj,gate_up_proj,down_proj", 55_705_600),
        ("llama-3.1-8b", "linear_qkv,linear_proj,linear_fc1,linear_fc2", 35_651_584),
        ("llama-3.1-8b", "attention_qkv", 5_242_880),
        ("llama-3.1-8b", "up_proj", 9_437_184),  # and the next two as PEFT 0.21.2 trains them
        ("llama-3.1-8b", "q_proj,gate_proj", 13_631_488),
        ("llama-3.1-8b", "gate_proj,up_proj", 18_874_368),
        ("gemma-3-12b", "language_model.layers.*.self_attn.q_proj", 6_094_848),
    ],
)
def test_adapters_are_named_as_peft_names_modules(preset: str, modules: str | None, trained: int) -> None:
    """16 x (inputs + outputs) of each module, by the widths in the published config.json."""
    adapters = {"rank": 16, "tensors": modules}
    report = report_of({"framework": "fsdp2", "adapters": adapters}, model={"preset": preset})
    assert report.model.num_trained_parameters == trained


@pytest.mark.parametrize(
    ("trainer", "preset", "modules", "tensors", "trained"),
    [
        ("nemo", "llama-3.1-8b", None, "linear_qkv, linear_proj, linear_fc1, linear_fc2", 35_651_584),
        ("megatron-bridge", "llama-3.1-8b", None, "linear_qkv, linear_proj, linear_fc1, linear_fc2", 35_651_584),
        ("nemo", "llama-3.1-8b", "all", None, 35_651_584),
        ("nemo", "llama-3.1-8b", "mlp_fc1,mlp_fc2", None, 26_214_400),
        ("nemo", "llama-3.1-8b", "mlp", None, 26_214_400),
        ("nemo", "qwen3-30b-a3b", None, "linear_qkv, linear_proj", 10_223_616),
        ("megatron-bridge", "qwen3-30b-a3b", None, "linear_qkv, linear_proj, expert.up, expert.down", 15_138_816),
        ("megatron-bridge", "qwen3-30b-a3b", "linear_fc1,linear_fc2", None, 4_915_200),
        ("megatron", "llama-3.1-8b", None, "attention.query, attention.value", 6_815_744),
    ],
)
def test_a_trainer_with_defaults_of_its_own_for_adapters_has_these(
    trainer: str, preset: str, modules: str | None, tensors: str | None, trained: int
) -> None:
    """16 x (inputs + outputs) of each fused module of Megatron-Core; in Megatron-Bridge all experts of a rank have one.

    Of Llama-3.1-8B's 32 layers: 4096 + 6144, 4096 + 4096, 4096 + 28672 and 14336 + 4096. Of Qwen3-30B-A3B's 48: 2048 +
    5120 and 4096 + 2048, as q_proj has 4096 outputs, k_proj and v_proj 512 each, and o_proj as many inputs; of experts
    2048 + 1536 and 768 + 2048.
    """
    adapters = {"rank": 16, "tensors": modules}
    report = report_of({"framework": trainer, "adapters": adapters}, model={"preset": preset})
    assert report.model.num_trained_parameters == trained
    assumed = {each.field: each for each in report.assumptions}.get("training.adapters.tensors")
    assert (assumed and assumed.value) == tensors
    if assumed and trainer != "megatron":
        assert "these are attention.query, attention.key, attention.value, attention.output" in assumed.reason
        assert ("experts are not counted" in assumed.reason) is (trainer == "nemo" and preset == "qwen3-30b-a3b")


@pytest.mark.parametrize(
    ("preset", "tensors", "trained", "not_counted"),
    [
        ("llama-3.1-8b", "attention, ffn", 41_943_040, ""),
        ("qwen3-30b-a3b", "attention", 13_369_344, "adapters of router, expert are not counted"),
    ],
)
@pytest.mark.parametrize(
    "trainer", ["llamafactory", "ms-swift", "verl", "openrlhf", "skyrl", "nemo-rl", "nemo-automodel"]
)
def test_a_trainer_that_adapts_all_linear_modules_by_default_does_so(
    trainer: str, preset: str, tensors: str, trained: int, not_counted: str
) -> None:
    """16 x (inputs + outputs) of each projection, of which Qwen3-30B-A3B has in attention alone.

    Of Llama-3.1-8B's 32 layers: 8192, 5120, 5120 and 8192, and three times 18432. Of Qwen3-30B-A3B's 48: 6144, 2560,
    2560 and 6144.
    """
    report = report_of({"framework": trainer, "adapters": {"rank": 16}}, model={"preset": preset})
    assert report.model.num_trained_parameters == trained
    (assumed,) = (each for each in report.assumptions if each.field == "training.adapters.tensors")
    assert assumed.value == tensors
    assert not_counted in assumed.reason


def test_all_linear_modules_of_a_model_with_experts_are_refused_in_a_trainer_that_adapts_them_by_default() -> None:
    adapters = {"rank": 16, "tensors": "all-linear"}
    with pytest.raises(InvalidInput, match="PEFT's choice differs by version"):
        report_of({"framework": "llamafactory", "adapters": adapters}, model={"preset": "qwen3-30b-a3b"})


@pytest.mark.parametrize(
    ("checkpoint", "distributed", "copies_of_optimizer"),
    [
        ({}, False, 128),
        ({}, True, 8),
        ({"optimizer_sharding": "fully-reshardable"}, True, 128),
    ],
)
def test_files_have_the_adapter_of_experts_once_for_each_expert(
    checkpoint: dict[str, Any], distributed: bool, copies_of_optimizer: int
) -> None:
    """Weights in bf16 for each of the 128 experts; master copy and moments for each, or in the buffers of 8 ranks."""
    adapters = {"rank": 16, "tensors": ["linear_fc1", "linear_fc2"]}
    training = {"framework": "megatron-bridge", "adapters": adapters, "distributed_optimizer": distributed}
    blocks = {
        "model": {"preset": "qwen3-30b-a3b"},
        "parallelism": {"data": 16, "expert": 8},
        "checkpoint": {"format": "torch-dist"} | checkpoint,
    }
    report = report_of(training, **blocks)
    adapter = 48 * 16 * (2048 + 1536 + 768 + 2048)
    assert report.checkpoint.total_bytes == adapter * (128 * 2 + copies_of_optimizer * 12)
    of_ranks = report.layout.rank_classes
    assert sum(each.num_ranks * each.bytes_per_rank for each in of_ranks) == report.checkpoint.total_bytes
    assert report.model.num_trained_parameters == adapter


@pytest.mark.parametrize(
    ("preset", "parts"),
    [
        ("qwen3-30b-a3b", "attention, router, expert"),
        ("jamba-v0.1", "attention, ffn, router, expert, ssm"),
        ("granite-4.0-h-small", "ssm, attention, router, expert, shared_expert"),
    ],
)
def test_all_linear_asks_what_to_adapt_where_peft_differs_by_version(preset: str, parts: str) -> None:
    """PEFT 0.21.2 adapts the experts of Qwen3 and not those of Jamba and Granite."""
    with pytest.raises(InvalidInput) as refused:
        report_of({"adapters": {"rank": 16, "tensors": "all-linear"}}, model={"preset": preset})
    (problem,) = refused.value.problems
    assert problem.field == "training.adapters.tensors"
    assert problem.rule.endswith("as PEFT's choice differs by version")
    named = problem.remedy.removeprefix("name those that get adapters, of ")
    assert set(named.split(", ")) == set(parts.split(", "))
    adapters = {"rank": 16, "tensors": named.split(", ")[:1]}
    assert report_of({"adapters": adapters}, model={"preset": preset}).model.num_trained_parameters


def test_a_rank_holds_the_adapter_of_its_experts_once() -> None:
    """Beside the frozen base, one adapter takes 14 bytes a parameter, and gradients 4; 16 would be one for each expert."""
    plain, adapted = (
        report_of(
            {"framework": "megatron-bridge", "adapters": {"rank": 16, "tensors": ["linear_proj", *more]}},
            model={"preset": "qwen3-30b-a3b"},
            parallelism={"data": 8, "expert": 8},
        )
        for more in ([], ["linear_fc1", "linear_fc2"])
    )
    added = adapted.training.gpu_state_bytes - plain.training.gpu_state_bytes
    assert added == 48 * 16 * (2048 + 1536 + 768 + 2048) * 18


_LLAMA = {"num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 688}


@pytest.mark.parametrize(
    ("config", "modules", "trained"),
    [
        ({"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, **_LLAMA}, "q_proj,v_proj", 27_264),
        ({"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, **_LLAMA}, "all-linear", 148_416),
        ({"model_type": "gpt2", "n_embd": 256, "n_layer": 2, "n_head": 8}, "c_attn", 34_304),
    ],
)
@pytest.mark.parametrize("tensor", [1, 2])
def test_dora_has_a_magnitude_for_each_output(config: dict[str, Any], modules: str, trained: int, tensor: int) -> None:
    """What PEFT 0.21.2 trains of these models with r=16 and use_dora: each module has a vector of its outputs."""
    model = {"huggingface_config": {"vocab_size": 4096, **config}}
    adapters = {"rank": 16, "tensors": modules, "dora": True}
    report = report_of({"adapters": adapters}, model=model, parallelism={"tensor": tensor})
    assert report.model.num_trained_parameters == trained
    of_ranks = report.layout.rank_classes
    assert sum(each.num_ranks * each.bytes_per_rank for each in of_ranks) == report.checkpoint.total_bytes


_SMALL = {"hidden_size": 256, "num_hidden_layers": 2, "vocab_size": 4096, **_LLAMA}
_MODELS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **_SMALL},
    "tied llama": {"model_type": "llama", "tie_word_embeddings": True, **_SMALL},
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": True, **_SMALL},
    "qwen3": {"model_type": "qwen3", "tie_word_embeddings": False, "head_dim": 32, **_SMALL},
    "gpt2": {"model_type": "gpt2", "n_embd": 256, "n_layer": 2, "n_head": 8, "vocab_size": 4096},
}


@pytest.mark.parametrize(
    ("model", "beside", "trained"),
    [
        ("llama", {"modules_to_save": "embed_tokens,lm_head"}, 2_123_776),
        ("tied llama", {"modules_to_save": "embed_tokens,lm_head"}, 2_123_776),
        ("tied llama", {"modules_to_save": ["model.embed_tokens"]}, 1_075_200),
        ("gpt2", {"modules_to_save": "wte,lm_head"}, 2_129_920),
        ("llama", {"modules_to_save": "norm"}, 27_904),
        ("qwen3", {"modules_to_save": "norm"}, 28_032),
        ("llama", {"modules_to_save": "v_proj"}, 49_152),
        ("qwen2", {"modules_to_save": "v_proj"}, 49_280),
        ("llama", {"bias": "all"}, 26_624),
        ("qwen2", {"bias": "all"}, 27_392),
        ("qwen2", {"bias": "lora_only"}, 27_264),
        ("qwen2", {"bias": "lora_only", "tensors": "q_proj,v_proj"}, 27_264),
        ("gpt2", {"bias": "all"}, 38_656),
        ("gpt2", {"bias": "lora_only"}, 34_304),
    ],
)
@pytest.mark.parametrize("tensor", [1, 2])
def test_modules_and_biases_are_trained_whole_beside_adapters(
    model: str, beside: dict[str, Any], trained: int, tensor: int
) -> None:
    """What PEFT 0.21.2 trains of these models with r=16, its default targets and modules_to_save or bias.

    A module that is trained whole gets no adapter, and a tied head becomes a second copy.
    """
    blocks: dict[str, Any] = {"model": {"huggingface_config": _MODELS[model]}, "parallelism": {"tensor": tensor}}
    report = report_of({"adapters": {"rank": 16} | beside}, **blocks)
    assert report.model.num_trained_parameters == trained
    of_ranks = report.layout.rank_classes
    assert sum(each.num_ranks * each.bytes_per_rank for each in of_ranks) == report.checkpoint.total_bytes


def test_modules_to_save_are_copies_beside_the_frozen_model_and_biases_are_its_own() -> None:
    blocks: dict[str, Any] = {"model": {"huggingface_config": _MODELS["qwen2"]}}
    plain, copied, biased = (
        report_of({"adapters": {"rank": 16, "save_base": True} | beside}, **blocks).checkpoint.parts["weights"]
        for beside in ({}, {"modules_to_save": "lm_head"}, {"bias": "all"})
    )
    assert copied.logical_bytes - plain.logical_bytes == 2 * 4096 * 256
    assert biased.logical_bytes == plain.logical_bytes


@pytest.mark.parametrize(
    ("training", "degrees", "bytes_per_parameter"),
    [
        ({}, {}, 6),
        ({}, {"data": 4}, 6),
        ({"framework": "ddp"}, {"data": 4}, 6),
        ({"framework": "accelerate"}, {"data": 4, "shard_group": 4}, 12),
        ({"framework": "fsdp2"}, {"data": 4}, 12),
        ({"framework": "llamafactory"}, {}, 12),
        ({"adapters": {"base_dtype": "nf4"}}, {}, 12),
        ({"adapters": {"base_dtype": "fp32"}}, {}, 12),
        ({"precision": "bf16"}, {}, 6),
    ],
)
def test_copies_have_the_dtype_of_a_base_in_bf16_unless_something_raises_them(
    training: dict[str, Any], degrees: dict[str, int], bytes_per_parameter: int
) -> None:
    """Weights and two moments of a head of 32,000 x 4,096 values, which PEFT 0.21.2 copies in bf16 from such a base."""
    adapters: dict[str, Any] = {"rank": 16} | training.get("adapters", {})
    plain, copied = (
        report_of({"framework": "transformers"} | training | {"adapters": adapters | beside}, parallelism=degrees)
        for beside in ({}, {"modules_to_save": "lm_head"})
    )
    added = copied.checkpoint.total_bytes - plain.checkpoint.total_bytes
    assert added == 32_000 * 4_096 * bytes_per_parameter
    of_ranks = copied.layout.rank_classes
    assert sum(each.num_ranks * each.bytes_per_rank for each in of_ranks) == copied.checkpoint.total_bytes
    assert copied.training.gpu_state_bytes > plain.training.gpu_state_bytes
    assumed = [a.value for a in copied.assumptions if a.field == "training.adapters.modules_to_save"]
    is_kept = bytes_per_parameter == 6 and "precision" not in training
    assert assumed == (["bf16"] if is_kept else [])


@pytest.mark.parametrize(
    ("adapters", "sentence"),
    [
        ({"modules_to_save": "score"}, r"modules_to_save must name weights of the model, got 'score': this model has"),
        ({"modules_to_save": "q_proj,v_proj"}, "tensors must leave matrices that are not trained whole"),
        ({"bias": "some"}, "bias must be one of 'none', 'all' or 'lora_only'"),
    ],
)
def test_what_cannot_be_trained_beside_adapters_is_refused(adapters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        report_of({"adapters": {"rank": 16} | adapters})


@pytest.mark.parametrize(("matrix", "cut"), [("attention.query", (512, 4096)), ("ffn.down", (4096, 1376))])
def test_on_every_rank_the_adapters_multiply_to_what_it_holds_of_their_matrix(
    matrix: str, cut: tuple[int, int]
) -> None:
    """W + BA (Hu et al. 2021, equation 3) on 8 ranks: 4096 outputs become 512, or 11008 inputs 1376."""
    adapters = {"rank": RANK, "tensors": [matrix], "save_base": True}
    document = {
        "model": {"preset": "llama-2-7b"},
        "training": {"adapters": adapters},
        "parallelism": {"tensor": 8},
        "checkpoint": {"format": "megatron"},
    }
    saved = saved_by_rank_of(scenario_from(document))
    for saving in saved.ranks:
        shapes = {tensor.name: tensor.shape for tensor in saved.tensors(saving) if tensor.part == "weights"}
        outputs, second_rank = shapes[f"{matrix}.adapter_out.0"]
        first_rank, inputs = shapes[f"{matrix}.adapter_in.0"]
        assert first_rank == second_rank == RANK
        assert (outputs, inputs) == shapes[f"{matrix}.0"] == cut


@pytest.mark.parametrize(
    ("preset", "typed", "own"),
    [
        ("gpt-oss-120b", "experts", ["expert"]),
        ("gpt-oss-120b", "ffn", ["expert"]),
        ("deepseek-v3", "mlp", ["ffn", "expert", "shared_expert"]),
        ("llama-3.1-8b", "lm_head", ["output_head"]),
        ("llama-3.1-8b", "q_proj", ["attention.query"]),
        ("gemma-3-12b", "vision_tower", ["vision"]),
    ],
)
def test_parts_are_frozen_by_the_names_of_other_libraries(preset: str, typed: str, own: list[str]) -> None:
    by_typed, by_own = (report_of({"frozen": names}, model={"preset": preset}) for names in ([typed], own))
    assert by_typed.model.num_trained_parameters == by_own.model.num_trained_parameters
    assert by_typed.model.num_trained_parameters < by_typed.model.num_parameters


def test_a_frozen_part_keeps_its_weights_and_no_optimizer_state() -> None:
    plain, frozen = report_of({}), report_of({"frozen": ["embedding"]})
    embedding = 32_000 * HIDDEN
    assert plain.checkpoint.logical_bytes - frozen.checkpoint.logical_bytes == 12 * embedding
    assert plain.training.gpu_state_bytes - frozen.training.gpu_state_bytes == 16 * embedding


@pytest.mark.parametrize("framework", ["megatron", "fsdp2"])
@pytest.mark.parametrize("frozen", [["attention"], ["attention", "ffn"]])
def test_freezing_the_base_leaves_its_adapters_trained(framework: str, frozen: list[str]) -> None:
    """The base is frozen with adapters anyway, so naming its tensors changes nothing."""
    training = {"framework": framework, "adapters": {"rank": RANK}}
    assert report_of(training | {"frozen": frozen}).checkpoint == report_of(training).checkpoint


def test_a_checkpoint_without_a_byte_is_refused() -> None:
    training = {"framework": "fsdp2", "frozen": ["parameters"], "saved_state": {"weights": None}}
    with pytest.raises(InvalidInput, match=r"training\.saved_state must leave something to save"):
        report_of(training, model={"num_parameters": 10**9})


def test_a_bare_count_has_no_matrices_for_named_adapters() -> None:
    with pytest.raises(
        InvalidInput, match=r"needs a model of which matrices are known: describe the model by model.preset"
    ):
        report_of({"adapters": {"rank": 32, "tensors": ["q_proj"]}}, model={"num_parameters": 7_541_237_184})


@pytest.mark.parametrize(
    ("training", "sentence"),
    [
        ({"frozen": ["embeding"]}, "training.frozen must name weights of the model, got 'embeding': this model has"),
        ({"adapters": {"rank": 8, "tensors": ["norm"]}}, "training.adapters.tensors must name weights of the model"),
        ({"adapters": {"rank": 0}}, "training.adapters.rank must be at least 1, got 0"),
    ],
)
def test_names_that_no_tensor_has_are_refused(training: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        report_of(training)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_the_metadata_of_a_distributed_checkpoint_has_about_the_size_measured(ranks: int) -> None:
    facts = published("framework_checkpoints")["dcp_metadata"]["measured_bytes"]
    measured = facts[f"{ranks} rank{'s' if ranks > 1 else ''}"]
    tensors = 3 * (8 * 9 + 3)
    assert metadata_bytes(num_tensors=tensors, num_shards=tensors * ranks) == pytest.approx(measured, rel=0.1)


def test_metadata_matters_on_thousands_of_ranks() -> None:
    """0.6 GB at 1,024 shards of 1,137 x 3 tensors. On 16,384 ranks it stays below the 10 GB of one shard on every
    rank: keys and values have only 1,024 rows, and 53,248 or 128,256 rows by fours and eights do not reach all."""
    sizes = []
    for ranks in (1_024, 16_384):
        report = report_of({"framework": "fsdp2"}, model={"preset": "llama-3.1-405b"}, parallelism={"data": ranks})
        sizes.append(report.checkpoint.small_state_bytes[".metadata"])
    assert sizes[0] == pytest.approx(0.6e9, rel=0.06)
    on_every_rank = 1_137 - 4 * 126 - 2
    shards = on_every_rank * 16_384 + 2 * 126 * 1_024 + 2 * 126 * (53_248 // 4) + 2 * (128_256 // 8)
    assert sizes[1] == pytest.approx(180 * 3 * shards, rel=0.001)


def test_containers_and_generators_do_not_matter_in_few_large_files() -> None:
    report = report_of({}, model={"preset": "megatron-1t"}, parallelism={"tensor": 8, "pipeline": 64})
    size = report.checkpoint
    assert (size.container_bytes + sum(size.small_state_bytes.values())) / size.total_bytes < 1e-5
