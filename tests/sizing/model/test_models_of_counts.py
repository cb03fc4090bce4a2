"""What a model of few facts is taken to be: counts with experts, the habits of a family, parts of a config left out."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.model import catalog, num_parameters
from sizing.model.model import routed_parameters
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from tests.examples import spread
from tests.sizing.model.test_model_types import RECORDED

KIMI = {"num_parameters": "1T", "num_active_parameters": "32B", "num_experts": 384}
SHAPE = {"hidden_size": 4096, "num_layers": 32, "num_attention_heads": 32, "num_kv_heads": 8, "vocab_size": 128_256}
LLAMA_3_8B = SHAPE | {"ffn_hidden_size": 14_336}


def report_of(model: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(scenario_from({"model": model} | blocks))


def assumed(report: SizingReport) -> dict[str, Any]:
    return {assumption.field: assumption.value for assumption in report.assumptions}


def test_counts_with_experts_divide_into_dense_and_routed_parameters() -> None:
    report = report_of(KIMI, parallelism={"data": 96, "expert": 96})
    assert report.model.num_parameters == 10**12
    assert report.model.num_active_parameters == pytest.approx(32e9, abs=384)
    assert report.model.num_routed_expert_parameters == pytest.approx((10**12 - 32e9) / (1 - 8 / 384), abs=384)
    fields = assumed(report)
    assert fields["model.num_experts_per_token"] == 8
    (origin,) = [origin for origin in report.provenance if "model" in origin.figures]
    assert origin.kind == "assumed"
    assert fields["model.num_routed_expert_parameters"] == report.model.num_routed_expert_parameters


@pytest.mark.parametrize("name", ["mixtral-8x7b", "qwen3-235b-a22b", "gpt-oss-120b", "kimi-k2"])
def test_the_estimate_finds_the_routed_experts_of_real_models(name: str) -> None:
    """From whole and active counts alone; what is not active beside experts is nothing in these models."""
    whole = report_of({"preset": name}).model
    entry = catalog()[name].described
    estimated = routed_parameters(
        whole.num_parameters,
        whole.num_active_parameters,
        num_experts=entry.num_experts or 0,
        per_token=entry.num_experts_per_token or 0,
    )
    assert estimated == pytest.approx(whole.num_routed_expert_parameters, rel=1e-9)


def test_expert_ranks_share_the_experts_of_a_count() -> None:
    alone, shared = (
        report_of(KIMI, parallelism={"data": 96, "expert": expert}, checkpoint={"format": "torch-dist"})
        for expert in (1, 96)
    )
    assert alone.checkpoint.logical_bytes == shared.checkpoint.logical_bytes == 14 * 10**12
    assert shared.training.gpu_state_bytes < alone.training.gpu_state_bytes / 10


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (
            {"num_parameters": 7, "num_experts": 2},
            "has num_experts without num_active_parameters",
        ),
        (
            {"num_parameters": 7, "num_active_parameters": 2},
            "has num_active_parameters without num_experts",
        ),
        ({"preset": "gpt2", "num_experts": 2}, "remove num_experts: the model's own description says it"),
        (
            KIMI | {"num_active_parameters": "20B"},
            "has num_active_parameters 20B, which 8 of 384 experts do not allow: "
            "give num_experts_per_token, here at most 7, or num_active_parameters of 20.84B or more",
        ),
        (KIMI | {"num_active_parameters": "2T"}, "which 8 of 384 experts do not allow: give at most num_parameters 1T"),
        (KIMI | {"num_active_parameters": "2B"}, "do not allow: give num_active_parameters of 20.84B or more"),
        (
            KIMI | {"num_experts_per_token": 385},
            "has num_experts_per_token 385 of num_experts 384",
        ),
        (
            {"architecture": SHAPE | {"family": "qwen3"}},
            "give true where the output head uses the embedding's weights, else false",
        ),
    ],
)
def test_counts_that_do_not_go_together_are_refused(model: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        scenario_from({"model": model})
    assert sentence in str(caught.value)


def test_an_expert_degree_divides_the_experts_of_a_count() -> None:
    with pytest.raises(InvalidInput, match="expert must divide num_experts 384, got 5"):
        report_of(KIMI, parallelism={"data": 5, "expert": 5})


def test_a_family_says_whether_the_head_is_tied() -> None:
    """Llama-3-8B, published with 8,030,261,248 parameters, has a head of its own; GPT-2 uses its embedding."""
    report = report_of({"architecture": LLAMA_3_8B | {"family": "llama"}})
    assert report.model.num_parameters == 8_030_261_248
    assert assumed(report)["model.architecture.tied_embeddings"] is False
    tied = report_of({"architecture": LLAMA_3_8B | {"family": "llama", "tied_embeddings": True}})
    assert report.model.num_parameters - tied.model.num_parameters == 128_256 * 4096
    assert (
        assumed(report_of({"architecture": SHAPE | {"family": "gpt2"}}))["model.architecture.tied_embeddings"] is True
    )


def test_what_a_config_describes_beside_the_counted_model_is_said() -> None:
    text = RECORDED["gemma3_text"]["config"]
    whole = {"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}}
    alone = report_of({"huggingface_config": whole, "language_model_only": True})
    assert alone.model.num_parameters == RECORDED["gemma3_text"]["num_parameters"]
    unknown = report_of({"huggingface_config": whole | {"vision_config": {"model_type": "of_tomorrow"}}})
    for report in (alone, unknown):
        (said,) = [a for a in report.assumptions if a.field == "model.huggingface_config"]
        assert said.value == "gemma3_text"
        assert said.reason == "the language model of text_config alone; vision_config not counted"
    counted = report_of({"huggingface_config": whole})
    (said,) = [a for a in counted.assumptions if a.field == "model.huggingface_config"]
    assert (
        f" and {counted.model.num_parameters - alone.model.num_parameters:,} parameters of vision_conf" in said.reason
    )
    text = {"model_type": "llama", "vocab_size": 32064, "num_key_value_heads": None}
    fields = assumed(report_of({"huggingface_config": {"model_type": "llava", "text_config": text}}))
    filled = {name.rpartition(".")[2]: value for name, value in fields.items() if ".text_config." in name}
    assert filled == {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
    }
    modules = RECORDED["minimax_m2"]["config"] | {"num_mtp_modules": 3}
    (said,) = [a for a in report_of({"huggingface_config": modules}).assumptions if a.field.endswith("num_mtp_modules")]
    assert said.reason.startswith("multi-token-prediction modules are not counted, as transformers leaves them out")


def test_what_is_not_counted_is_warned_of_with_the_way_that_counts_it() -> None:
    text = RECORDED["gemma3_text"]["config"]
    whole = {"model_type": "gemma3", "text_config": text, "vision_config": {"model_type": "of_tomorrow"}}
    modules = RECORDED["minimax_m2"]["config"] | {"num_mtp_modules": 3}
    said = [report_of({"huggingface_config": config}).warnings for config in (whole, modules, text)]
    beside, predicting, nothing = ([each for each in warnings if "Not counted" in each] for warnings in said)
    assert beside[0].startswith("Not counted of the model: its vision part and what projects into the language model.")
    assert beside[0].endswith("list the tensors that transformers builds of it in model.tensors")
    assert predicting[0].startswith("Not counted of the model: its modules for multi-token prediction")
    assert nothing == []


def test_a_preset_whose_source_is_not_whole_leaves_something_out() -> None:
    assert all(entry.leaves_out for entry in catalog().values() if "without its" in entry.source)


PARTIAL = [preset for preset in sorted(catalog()) if catalog()[preset].leaves_out is not None]
WHOLE = [preset for preset in sorted(catalog()) if preset not in PARTIAL]


@pytest.mark.parametrize("preset", spread(sorted(catalog()), by_default=[*PARTIAL[::4], *WHOLE[::24]]))
def test_a_preset_that_is_not_the_whole_published_model_says_so_on_the_first_screen(preset: str) -> None:
    entry = catalog()[preset]
    warnings = [each for each in report_of({"preset": preset}).warnings if "Not counted of the published" in each]
    assert len(warnings) == (entry.leaves_out is not None)


@pytest.mark.parametrize(
    ("preset", "language_model"),
    [("gemma-3-4b", 3_880_263_168), ("gemma-3-12b", 11_766_034_176), ("gemma-3-27b", 27_009_346_304)],
)
def test_a_preset_with_a_vision_tower_is_the_whole_published_model(preset: str, language_model: int) -> None:
    """The hub counts the whole, llama.cpp the language model alone, which a scenario of former versions keeps."""
    whole, alone = report_of({"preset": preset}), report_of({"preset": preset, "language_model_only": True})
    assert whole.model.num_parameters == catalog()[preset].num_parameters
    assert alone.model.num_parameters == language_model
    assert not [each for report in (whole, alone) for each in report.warnings if "Not counted" in each]
    (former,) = [
        row
        for row in answer({"schema_version": 3, "model": {"preset": preset}}).assumptions
        if row.field == "model.language_model_only"
    ]
    assert (former.value, former.reason) == (True, "default of schema version 3")
    then = answer({"schema_version": 3, "model": {"preset": preset}})
    assert then.model.num_parameters == language_model


@pytest.mark.parametrize(("modules", "are"), [(None, "are not counted"), (0, "are not counted"), (2, "are counted, ")])
def test_an_architecture_says_whether_modules_that_predict_further_tokens_are_in(modules: int | None, are: str) -> None:
    described = catalog()["deepseek-v3"].architecture
    assert described is not None
    document = described.model_dump(exclude_none=True) | ({} if modules is None else {"num_mtp_layers": modules})
    report, plain = report_of({"architecture": document}), report_of({"preset": "deepseek-v3"})
    (said,) = [row for row in report.assumptions if row.field == "model.architecture.num_mtp_layers"]
    assert said.value == (modules or 0)
    more = report.model.num_parameters - plain.model.num_parameters
    assert are in said.reason
    assert (f"{more:,} parameters" in said.reason) == (more > 0) == bool(modules)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "not counted; give their number to count them"),
        ({"num_nextn_predict_layers": 0}, "not counted, as their number is given as 0"),
    ],
)
def test_a_config_that_says_that_it_has_no_such_modules_is_not_asked_for_them(
    fields: dict[str, int], reason: str
) -> None:
    config = RECORDED["deepseek_v3"]["config"] | {"model_type": "kimi_k2"} | fields
    report = report_of({"huggingface_config": config})
    (said,) = [row for row in report.assumptions if row.field == "model.architecture.num_mtp_layers"]
    assert (said.value, said.reason) == (0, f"multi-token-prediction modules are {reason}")
    assert report.model.num_parameters == RECORDED["deepseek_v3"]["num_parameters"]


def test_a_config_that_counts_such_modules_is_said_to_once() -> None:
    config = RECORDED["deepseek_v3"]["config"] | {"model_type": "kimi_k2", "num_nextn_predict_layers": 1}
    said = [row for row in report_of({"huggingface_config": config}).assumptions if "prediction" in row.reason]
    assert [row.field for row in said] == ["model.huggingface_config.num_nextn_predict_layers"]


@pytest.mark.parametrize(("model_type", "is_said"), [("qwen3_next", True), ("qwen3_5_text", False)])
def test_a_module_that_no_field_of_the_config_counts_is_said_to_be_left_out(model_type: str, is_said: bool) -> None:
    report = report_of({"huggingface_config": RECORDED[model_type]["config"]})
    said = [row.reason for row in report.assumptions if row.field == "model.huggingface_config.model_type"]
    assert said == is_said * [
        "the module for multi-token prediction of the published models (`mtp.` in their files) is not counted, "
        "as transformers leaves it out"
    ]


def test_tensor_ranks_cut_what_divides_and_repeat_groups_of_keys() -> None:
    model = {"preset": "qwen3-next-80b-a3b"}
    for tensor in (1, 2, 4, 8, 16):
        report_of(model, parallelism={"tensor": tensor})
    with pytest.raises(InvalidInput, match=r"tensor must divide the parts of attention.output, 16, got 32"):
        report_of(model, parallelism={"tensor": 32})
    with pytest.raises(InvalidInput, match=r"must divide the parts of .*, got 3"):
        report_of(model, parallelism={"tensor": 3})


def test_each_tensor_rank_holds_its_heads_and_all_that_is_shared() -> None:
    """GPT-OSS-20B on 8 tensor ranks: of 64 heads 8, of 8 groups 1; norms, router and output biases whole."""
    report = report_of({"preset": "gpt-oss-20b"}, checkpoint={"format": "megatron"}, parallelism={"tensor": 8})
    shared = 24 * (2 * 2880 + 2880 + 32 * 2880 + 32 + 32 * 2880) + 2880  # norms, output bias, router, experts' biases
    assert report.model.num_parameters == 20_914_757_184
    assert report.checkpoint.replicated_bytes == 14 * 7 * shared


def test_a_padded_vocabulary_pads_the_embedding() -> None:
    plain, padded = (
        report_of({"preset": "smollm3-3b"}, training={"vocabulary_padding_multiple": multiple})
        for multiple in (None, 1000)
    )
    assert padded.model.num_parameters - plain.model.num_parameters == (129_000 - 128_256) * 2048


def test_activations_of_composed_models_follow_the_same_formulas() -> None:
    """GPT-OSS-20B: 4 of its experts, gated, 64 heads of 64 in 8 groups, without sequence or tensor parallelism.

    Megatron-LM weighs an expert's result in its activation, so that each keeps its input and three tensors within, of
    which recomputation of moe-act computes the activation again; that of layernorm the outputs of both norms.
    """
    batch = {"micro_batch_size": 1, "sequence_length": 1024, "recompute_modules": ["layernorm", "moe_act"]}
    report = report_of({"preset": "gpt-oss-20b"}, training=batch)
    values = 2 * 2880 + 2 * 64 * (64 + 8) + 4 * (2 * 2880 + 2880)
    head = 2 * 2 * 2880 + 4 * 201_088
    assert report.training.activation_bytes == 1024 * (24 * 2 * values + head)


def test_a_piece_without_a_formula_leaves_activations_open_and_says_so() -> None:
    batch = {"micro_batch_size": 1, "sequence_length": 1024}
    report = report_of({"preset": "qwen3-next-80b-a3b"}, training=batch)
    assert report.training.activation_bytes is None
    assert "Activations not counted: no formula for all layers of a qwen3_next" in report.warnings


def test_a_published_config_names_what_the_catalog_counts() -> None:
    kimi = catalog()["kimi-k2"]
    buffers = 60 * 384
    assert num_parameters(kimi.inventory) + buffers == 1_026_408_232_448, "the hub's total, with the routers' buffers"
