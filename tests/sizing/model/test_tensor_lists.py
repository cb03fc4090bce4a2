"""A list of tensors is the model that it lists: as transformers builds it, and as the built-in families count it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.holders import holder_classes
from sizing.layout.stages import stage_spans
from sizing.model import Architecture, Model, catalog, from_module
from sizing.model.huggingface import model_from
from sizing.model.inventory import Inventory, inventory_of, num_parameters
from sizing.model.listed import FlatTensor, Heads, ListedModel, TensorEntry, entries_of, listed_model
from sizing.model.listed.name_patterns import name_in_two
from sizing.model.model import ResolvedModel, resolve
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.sized_layout import manifest_of

HERE = Path(__file__).parent
LISTS: dict[str, Any] = json.loads((HERE / "transformers_tensors.json").read_text(encoding="utf-8"))["types"]
RECORDED: dict[str, Any] = json.loads((HERE / "transformers_golden.json").read_text(encoding="utf-8"))["types"]
"""Lists of 177 models that transformers built, and the configs that are counted without it."""

DEGREES = [(1, 1), (1, 2), (2, 1), (4, 1), (8, 1), (2, 3)]
"""Tensor and pipeline."""
DIFFERENT = {
    "bamba": "groups of Mamba2 fewer than ranks, which stand whole in the one and are cut in the other",
    "falcon_h1": "the same",
    "granitemoehybrid": "the same",
    "mimo_v2_flash": "layers with other numbers of heads of keys and values, which the list takes from the config's one",
    "doge": "numbers for each head that no rule knows",
}
"""Built-in model types of which tensor ranks hold other bytes by the list, and why."""

MIXTURE = "model.layers.{0..3}.mlp.experts.{0..7}.up_proj.weight"
TENSORS: list[dict[str, Any]] = [
    {"name": "model.embed_tokens.weight", "shape": [1000, 64]},
    {"name": "model.layers.{0..3}.self_attn.q_proj.weight", "shape": [64, 64]},
    {"name": "model.layers.{0..3}.self_attn.o_proj.weight", "shape": [64, 64]},
    {"name": "model.layers.{0..3}.mlp.gate.weight", "shape": [8, 64]},
    {"name": MIXTURE, "shape": [128, 64]},
    {"name": "model.layers.{0..3}.mlp.experts.{0..7}.down_proj.weight", "shape": [64, 128]},
    {"name": "model.layers.{0..3}.input_layernorm.weight", "shape": [64]},
    {"name": "model.norm.weight", "shape": [64]},
    {"name": "lm_head.weight", "shape": [1000, 64]},
]


CLASSIC = {"parallelism": {"tensor": 2}, "checkpoint": {"format": "megatron"}}
"""One file per tensor rank, each with the whole of what is not cut: 14 bytes per parameter."""


def block_of(model_type: str) -> dict[str, Any]:
    """The `model` block of a recorded list."""
    recorded = LISTS[model_type]
    tensors = [
        {"name": n, "shape": s, "roles": r} if r else {"name": n, "shape": s} for n, s, *r in recorded["tensors"]
    ]
    return {**recorded["beside"], "tensors": tensors}


def listed(model: dict[str, Any]) -> ListedModel:
    asked = Model.model_validate(model)
    return listed_model(asked.tensors or (), Heads(asked.num_attention_heads, asked.num_kv_heads))


def of_list(model: dict[str, Any]) -> ResolvedModel:
    return resolve(Model.model_validate(model))


def built_in(model_type: str) -> tuple[Inventory, int]:
    """The tensors of a model_type as they are counted without a list, and its layers."""
    described = model_from(RECORDED[model_type]["config"])
    if isinstance(described, Architecture):
        return inventory_of(described), described.num_layers
    return described.inventory, described.num_layers


def held(inventory: Inventory, num_layers: int, parallelism: Parallelism) -> list[tuple[int, int]]:
    """Parameters of every rank of a replica, dense and of experts."""
    spans = stage_spans(inventory, parallelism, num_layers=num_layers)
    holders = holder_classes(spans, parallelism, ())
    return [(holder.dense.parameters, holder.expert.parameters) for holder in holders for _ in range(holder.num_ranks)]


def fits(inventory: Inventory, tensor: int) -> bool:
    """Whether what is summed over ranks divides, and everything else does or is held by several."""
    return all(
        group.pieces % tensor == 0 or (tensor % group.pieces == 0 and not group.cut)
        for group in inventory
        if group.placement == "layers"
    )


@pytest.mark.parametrize("model_type", LISTS)
def test_a_list_has_the_parameters_that_transformers_built(model_type: str) -> None:
    found = of_list(block_of(model_type))
    assert found.num_parameters == LISTS[model_type]["num_parameters"]


@pytest.mark.parametrize("model_type", RECORDED)
def test_ranks_hold_the_same_by_the_list_as_by_the_built_in_family(model_type: str) -> None:
    ours, num_layers = built_in(model_type)
    found = listed(block_of(model_type))
    assert found.num_layers == num_layers
    same = [
        held(found.inventory, num_layers, Parallelism(tensor=tensor, pipeline=pipeline))
        == held(ours, num_layers, Parallelism(tensor=tensor, pipeline=pipeline))
        for tensor, pipeline in DEGREES
        if fits(ours, tensor) and pipeline <= num_layers
    ]
    assert all(same) != (model_type in DIFFERENT)
    assert len(same) >= 2


def test_what_differs_is_little() -> None:
    for model_type in DIFFERENT:
        ours, num_layers = built_in(model_type)
        found = listed(block_of(model_type))
        for (dense, expert), (other, other_expert) in zip(
            held(found.inventory, num_layers, Parallelism(tensor=2)),
            held(ours, num_layers, Parallelism(tensor=2)),
            strict=True,
        ):
            assert dense + expert == pytest.approx(other + other_expert, rel=0.01)


def kinds_of(inventory: Inventory) -> Counter[tuple[Any, ...]]:
    """How many tensors there are of each shape, cut and place."""
    kinds: Counter[tuple[Any, ...]] = Counter()
    for group in inventory:
        layers = tuple(group.layers) if group.placement == "layers" else ()
        kinds[group.shape, group.pieces, group.cut, group.experts, group.placement, layers] += group.count
    return kinds


@pytest.mark.parametrize("model_type", ["llama", "mistral", "qwen2", "qwen3", "gemma2", "opt", "olmo2", "starcoder2"])
def test_both_ways_agree_tensor_by_tensor(model_type: str) -> None:
    ours, _ = built_in(model_type)
    assert kinds_of(listed(block_of(model_type)).inventory) == kinds_of(ours)


@pytest.mark.parametrize(
    ("model_type", "degrees", "file_format", "framework"),
    [
        ("llama", {"tensor": 4, "pipeline": 2, "data": 2}, "torch-dist", "megatron"),
        ("gpt2", {"tensor": 4, "pipeline": 3, "data": 2}, "megatron", "megatron"),
        ("mixtral", {"tensor": 2, "pipeline": 2, "data": 8, "expert": 8}, "torch-dist", "megatron"),
        ("qwen3_moe", {"tensor": 4, "data": 8, "expert": 8, "expert_tensor": 1}, "torch-dist", "megatron"),
        ("deepseek_v3", {"tensor": 2, "pipeline": 4, "data": 16, "expert": 16}, "megatron", "megatron"),
        ("gpt_oss", {"tensor": 2, "data": 8, "expert": 8}, "torch-dist", "megatron"),
        ("llama", {"data": 24}, "fsdp-sharded", "fsdp2"),
        ("qwen3", {"data": 16, "shard_group": 8}, "fsdp-sharded", "fsdp2"),
        ("gemma2", {"data": 16, "zero_stage": 3}, "deepspeed", "deepspeed"),
    ],
)
def test_every_rank_writes_the_same_bytes_by_the_list(
    model_type: str, degrees: dict[str, int], file_format: str, framework: str
) -> None:
    config = RECORDED[model_type]["config"]
    blocks = {"parallelism": degrees, "checkpoint": {"format": file_format}, "training": {"framework": framework}}
    by_list, built_in_family = (
        {(row.rank, row.file): row.tensor_bytes for row in manifest_of(scenario_from(blocks | {"model": model}))}
        for model in (block_of(model_type), {"huggingface_config": config})
    )
    if file_format != "torch-dist":
        assert by_list == built_in_family
        return
    # Megatron deals whole tensors, and a list has apart what a family of Megatron has in one: query, key and value.
    assert by_list == pytest.approx(built_in_family, rel=0.005)
    assert sum(by_list.values()) == pytest.approx(sum(built_in_family.values()), rel=1e-6)


def report_of(model: dict[str, Any], **blocks: Any) -> SizingReport:
    return answer(scenario_from({"model": model} | blocks))


def expert_names(*projections: str) -> list[str]:
    return [f"model.layers.{{1..60}}.mlp.experts.{{0..383}}.{name}_proj.weight" for name in projections]


def test_a_mixture_of_1t_parameters_is_a_small_document() -> None:
    """Kimi K2 with an entry for what its files name one by one: 69,120 matrices of experts."""
    described = catalog()["kimi-k2"].architecture
    assert described is not None
    native = described.model_dump()
    hidden, inner, latent = native["hidden_size"], native["expert_ffn_hidden_size"], native["kv_lora_rank"]
    heads = native["num_attention_heads"]
    every, sparse = "model.layers.{0..60}.", "model.layers.{1..60}."
    shapes: dict[str, list[Any]] = {
        "model.embed_tokens.weight": [native["vocab_size"], hidden],
        f"{every}self_attn.q_a_proj.weight": [native["q_lora_rank"], hidden],
        f"{every}self_attn.q_a_layernorm.weight": [native["q_lora_rank"]],
        f"{every}self_attn.q_b_proj.weight": [heads * 192, native["q_lora_rank"]],
        f"{every}self_attn.kv_a_proj_with_mqa.weight": [latent + 64, hidden],
        f"{every}self_attn.kv_a_layernorm.weight": [latent],
        f"{every}self_attn.kv_b_proj.weight": [heads * 256, latent],
        f"{every}self_attn.o_proj.weight": [hidden, heads * 128],
        f"{every}input_layernorm.weight": [hidden],
        f"{every}post_attention_layernorm.weight": [hidden],
        "model.layers.0.mlp.gate_proj.weight": [native["ffn_hidden_size"], hidden],
        "model.layers.0.mlp.up_proj.weight": [native["ffn_hidden_size"], hidden],
        "model.layers.0.mlp.down_proj.weight": [hidden, native["ffn_hidden_size"]],
        f"{sparse}mlp.gate.weight": [384, hidden],
        f"{sparse}mlp.shared_experts.gate_proj.weight": [inner, hidden],
        f"{sparse}mlp.shared_experts.up_proj.weight": [inner, hidden],
        f"{sparse}mlp.shared_experts.down_proj.weight": [hidden, inner],
        **{name: [inner, hidden] for name in expert_names("gate", "up")},
        **{name: [hidden, inner] for name in expert_names("down")},
        "model.norm.weight": [hidden],
        "lm_head.weight": [native["vocab_size"], hidden],
    }
    model = {
        "tensors": [{"name": name, "shape": shape} for name, shape in shapes.items()],
        "num_attention_heads": heads,
        "num_experts_per_token": 8,
    }
    assert len(json.dumps(model)) < 3_000
    degrees = {"tensor": 8, "pipeline": 4, "data": 32, "expert": 32}
    by_list, by_name = report_of(model, parallelism=degrees), report_of({"preset": "kimi-k2"}, parallelism=degrees)
    assert by_list.model.num_parameters == by_name.model.num_parameters > 10**12
    assert by_list.model.num_active_parameters == by_name.model.num_active_parameters
    assert by_list.layout.max_rank_bytes == by_name.layout.max_rank_bytes


NAMES = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(["up", "down"]), st.integers(0, 4), st.sampled_from([(4,), (4, 8)])),
    max_size=40,
    unique_by=lambda each: each[:3],
)


@given(NAMES)
def test_grouped_names_stand_for_the_tensors_and_no_others(drawn: list[tuple[int, str, int, tuple[int, ...]]]) -> None:
    flat = [FlatTensor(f"h.{i}.experts.{j}.{word}.weight", shape, "bfloat16") for i, word, j, shape in drawn]
    named: Counter[tuple[str, tuple[int, ...]]] = Counter()
    for entry in entries_of(flat):
        (layers, experts), texts = entry.pattern.numbers, entry.pattern.texts
        named.update((f"{texts[0]}{i}{texts[1]}{j}{texts[2]}", entry.shape) for i in layers for j in experts)
        assert TensorEntry(name=entry.name, shape=entry.shape).num_tensors == entry.num_tensors
    assert named == Counter((tensor.name, tensor.shape) for tensor in flat)


@given(NAMES, NAMES)
def test_a_name_in_two_entries_is_found_where_there_is_one(
    some: list[tuple[int, str, int, tuple[int, ...]]], others: list[tuple[int, str, int, tuple[int, ...]]]
) -> None:
    entries = [
        entry
        for drawn in (some, others)
        for entry in entries_of(FlatTensor(f"h.{i}.experts.{j}.{word}", shape, "fp32") for i, word, j, shape in drawn)
    ]
    both = {f"h.{i}.experts.{j}.{word}" for i, word, j, _ in some} & {
        f"h.{i}.experts.{j}.{word}" for i, word, j, _ in others
    }
    found = name_in_two(entry.pattern for entry in entries)
    assert found in both if both else found is None


def roles_of(model: dict[str, Any]) -> dict[str, str]:
    return {row.named.entry.name: " ".join(row.roles) for row in listed(model).rows}


def test_rules_find_the_roles_and_an_entry_may_say_others() -> None:
    roles = roles_of({"tensors": TENSORS})
    assert list(roles.values()) == [
        "embedding column",
        "layer column",
        "layer row",
        "layer router replicated",
        "layer expert column",
        "layer expert row",
        "layer replicated",
        "head replicated",
        "head column",
    ]
    told = [entry | ({"roles": ["replicated"]} if "q_proj" in entry["name"] else {}) for entry in TENSORS]
    assert roles_of({"tensors": told})["model.layers.{0..3}.self_attn.q_proj.weight"] == "layer replicated"
    before, after = (report_of({"tensors": some}, **CLASSIC) for some in (TENSORS, told))
    assert after.checkpoint.replicated_bytes - before.checkpoint.replicated_bytes == 14 * 4 * 64 * 64


def test_inputs_that_come_first_are_told_by_the_shapes() -> None:
    """Experts of gpt-oss and all matrices of GPT-2 are stored with their inputs first."""
    cuts = {g.name: g.cut for model_type in ("gpt_oss", "gpt2") for g in listed(block_of(model_type)).inventory}
    assert cuts["mlp.experts.gate_up_proj"] == cuts["mlp.c_fc.weight"] == cuts["attn.c_attn.weight"] == 1
    assert cuts["mlp.experts.down_proj"] == cuts["mlp.c_proj.weight"] == 0
    assert cuts["self_attn.o_proj.weight"] == 1


def test_what_no_rule_knows_is_whole_on_every_rank_and_said() -> None:
    strange = {"name": "model.layers.{0..3}.mixer.wobble", "shape": [7, 9]}
    report = report_of({"tensors": [*TENSORS, strange]}, **CLASSIC)
    (said,) = [a for a in report.assumptions if "no rule knows" in a.reason]
    assert said.value == "model.layers.{0..3}.mixer.wobble"
    assert "whole on every tensor rank" in said.reason
    assert any(row.tensors == "mixer.wobble" and row.copies == 2 for row in report.checkpoint.replicated)


def test_matrices_without_known_names_that_widen_and_narrow_again_are_a_pair() -> None:
    blocks: list[dict[str, Any]] = [
        {"name": "model.layers.{0..3}.block.0.weight", "shape": [256, 64]},
        {"name": "model.layers.{0..3}.block.0.bias", "shape": [256]},
        {"name": "model.layers.{0..3}.block.2.weight", "shape": [64, 256]},
        {"name": "model.layers.{0..3}.block.2.bias", "shape": [64]},
    ]
    roles = roles_of({"tensors": [*TENSORS, *blocks]})
    assert [roles[entry["name"]] for entry in blocks] == [
        "layer column",
        "layer column",
        "layer row",
        "layer replicated",
    ]


def test_one_table_of_the_vocabulary_is_embedding_and_head() -> None:
    report = report_of({"tensors": TENSORS[:-1]}, **CLASSIC | {"parallelism": {"pipeline": 2}})
    assert "tied embeddings" in [assumption.value for assumption in report.assumptions]
    (tied,) = [row for row in report.checkpoint.replicated if row.tensors == "model.embed_tokens.weight"]
    assert tied.copies == 2
    named = [*TENSORS[:-1], TENSORS[-1] | {"roles": ["tied"]}]
    assert of_list({"tensors": named}).num_parameters == of_list({"tensors": TENSORS[:-1]}).num_parameters


def further(*names: str) -> list[dict[str, Any]]:
    shapes = {"embed_tokens.weight": [1000, 64], "shared_head.head.weight": [1000, 64], "eh_proj.weight": [64, 128]}
    return [{"name": f"model.layers.4.{name}", "shape": shapes.get(name, [64])} for name in names]


def test_layers_that_predict_further_tokens_stand_on_the_last_stage() -> None:
    """As the files of DeepSeek-V3 name them: a layer after the last, with copies of embedding and head."""
    more = [entry | {"name": entry["name"].replace("layers.{0..3}", "layers.{0..4}")} for entry in TENSORS]
    added = further("eh_proj.weight", "enorm.weight", "hnorm.weight", "embed_tokens.weight", "shared_head.head.weight")
    found = listed({"tensors": [*more, *added]})
    layer = sum(g.num_parameters // 4 for g in listed({"tensors": TENSORS}).inventory if g.placement == "layers")
    assert found.num_layers == 4
    further_parameters = sum(g.num_parameters for g in found.inventory if g.name.startswith("mtp."))
    assert further_parameters == layer + 64 * 128 + 2 * 64
    assert any(f"{further_parameters:,} parameters" == note.value for note in found.notes)
    assert {g.placement for g in found.inventory if g.name.startswith("mtp.")} == {"last-stage"}


def test_experts_are_dealt_and_tokens_pass_some() -> None:
    model = {"tensors": TENSORS, "num_experts_per_token": 2}
    report = report_of(model, parallelism={"data": 8, "expert": 4})
    experts = 4 * 8 * 2 * 128 * 64
    assert report.model.num_routed_expert_parameters == experts
    assert report.model.num_active_parameters == report.model.num_parameters - experts * 6 // 8


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"roles": ["column", "row"]},
        {},
        f"model.tensors.0 {MIXTURE!r} must not be both column and row",
    ),
    ({"roles": ["embedding", "head"]}, {}, f"{MIXTURE!r} must not be both embedding and head"),
    ({"roles": ["buffer", "column"]}, {}, f"model.tensors.0 {MIXTURE!r} must not be both buffer and column: keep one"),
    ({"roles": ["layer", "buffer"]}, {}, f"model.tensors.0 {MIXTURE!r} must not be both buffer and layer: keep one"),
    (
        {"name": "lm_tail.weight", "shape": [0, 32]},
        {},
        "model.tensors 'lm_tail.weight' must not have a dimension of 0: correct its shape, [0, 32], or leave it out.",
    ),
    ({"shape": [128, 0]}, {}, f"{MIXTURE!r} must not have a dimension of 0: correct its shape, [128, 0], or leave it"),
    ({"parts": 3}, {}, f"model.tensors {MIXTURE!r} must have parts that divide 128: correct its parts, 3."),
    ({"name": "wide.weight", "roles": ["layer"]}, {}, "'wide.weight' must not be a layer's: its name counts none of"),
    ({"name": "norm.bias", "shape": [64], "roles": ["row"]}, {}, "'norm.bias' must not be cut by rows: it has one"),
    (
        {"name": "norm.bias", "shape": [64], "roles": ["expert"]},
        {},
        "'norm.bias' must not be an expert's: neither its name counts experts nor does its first dimension.",
    ),
    ({"name": "h.{0..3.weight"}, {}, "has the name 'h.{0..3.weight', where braces must stand in pairs around numbers"),
    ({"name": "h.{3..0}.weight"}, {}, "where '3..0' must count upwards, to at most 9,999: correct the name."),
    ({"name": "h.{a}.weight"}, {}, "'a' in braces must be a number or a run of numbers, such as 0..31"),
    ({"dtype": "uint8"}, {}, "must not hold packed weights, got 'uint8': they do not say how many parameters they are"),
    ({"dtype": "U8"}, {}, "must not hold packed weights, got 'uint8'"),
    ({"dtype": "int4"}, {}, "must not hold packed weights, got 'int4'"),
    (
        {"dtype": "bfloat61"},
        {},
        "model.tensors.0.dtype must be a dtype of torch or safetensors, such as bfloat16, got 'bfloat61': the nearest "
        "are bfloat16, float64, float16.",
    ),
    ({"dtype": "banana"}, {}, "got 'banana': the nearest are bfloat16, float16 and float32."),
    (
        {"name": "lm_head.weight", "shape": [1000, 64]},
        {},
        "model.tensors must have one entry for each name, and two are for 'lm_head.weight': keep one of them.",
    ),
    ({"name": "model.layers.{2,9}.mlp.gate.weight"}, {}, "and two are for 'model.layers.2.mlp.gate.weight': keep"),
    ({}, {"num_experts_per_token": 9}, "num_experts_per_token must be at most the experts of model.tensors, 8, got 9"),
    ({}, {"num_kv_heads": 2}, "model has num_kv_heads without num_attention_heads: give num_attention_heads."),
    ({}, {"num_parameters": 7}, "must have exactly one of preset, architecture, huggingface_config, tensors, num_par"),
]


@pytest.mark.parametrize(
    ("changed", "beside", "sentence"), REFUSED, ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_list_that_contradicts_itself_is_refused_by_the_tensors_name(
    changed: dict[str, Any], beside: dict[str, Any], sentence: str
) -> None:
    first = {"name": MIXTURE, "shape": [128, 64]} | changed
    rest = [entry for entry in TENSORS if entry["name"] != MIXTURE]
    with pytest.raises(InvalidInput) as caught:
        report_of({"tensors": [first, *rest]} | beside)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "dtype",
    ["BF16", "bf16", "F32", "F16", "F8_E4M3", "fp32", "torch.bfloat16", "fp8", "Float32", "float 16", "not stated"],
)
def test_a_dtype_counts_under_each_of_its_names(dtype: str) -> None:
    model = {"tensors": [entry | {"dtype": dtype} for entry in TENSORS]}
    assert of_list(model).num_parameters == of_list({"tensors": TENSORS}).num_parameters
    assert not [note for note in listed(model).notes if "buffer" in note.reason]


def test_a_module_with_a_dtype_that_is_not_known_is_refused_by_the_tensors_name() -> None:
    with pytest.raises(
        InvalidInput, match=r"h\.\{0\.\.1\}\.weight\.dtype must be a dtype of torch .* 'float3_strange'"
    ):
        entries_of(FlatTensor(f"h.{layer}.weight", (4, 8), "float3_strange") for layer in range(2))


def test_an_empty_buffer_is_left_out() -> None:
    empty = {"name": "model.rotary.cache", "shape": [0, 32], "roles": ["buffer"]}
    assert of_list({"tensors": [*TENSORS, empty]}).inventory == of_list({"tensors": TENSORS}).inventory


def test_degrees_that_do_not_fit_a_list_are_refused() -> None:
    for degrees, sentence in [
        ({"data": 3, "expert": 3}, "parallelism.expert must divide num_experts 8, got 3"),
        ({"tensor": 3}, "parallelism.tensor must divide the parts of self_attn.o_proj.weight, 64, got 3"),
        ({"pipeline": 5}, "parallelism.pipeline must be at most num_layers 4, got 5"),
    ]:
        with pytest.raises(InvalidInput) as caught:
            report_of({"tensors": TENSORS}, parallelism=degrees)
        assert sentence in str(caught.value)
    with pytest.raises(InvalidInput, match=r"pipeline must be 1 where no name of model\.tensors counts layers, got 2"):
        report_of({"tensors": [{"name": "a.weight", "shape": [8, 8]}]}, parallelism={"pipeline": 2})


def test_layers_of_another_part_stand_on_the_first_stage_and_are_said() -> None:
    tower = {"name": "vision_tower.blocks.{0..1}.mlp.fc1.weight", "shape": [32, 16]}
    found = listed({"tensors": [*TENSORS, tower]})
    (group,) = [g for g in found.inventory if g.name.startswith("vision_tower")]
    assert (group.placement, group.num_parameters) == ("first-stage", 2 * 32 * 16)
    assert any("layers of another part: all on the first stage" in note.reason for note in found.notes)


def test_a_tensor_that_holds_all_layers_counts_them() -> None:
    """As Megatron saves equal layers."""
    flat = [
        FlatTensor("decoder.layers.mlp.linear_fc1.weight", (24, 512, 64), "float32"),
        FlatTensor("decoder.layers.self_attention.linear_proj.weight", (24, 64, 64), "float32"),
        FlatTensor("embedding.word_embeddings.weight", (1000, 64), "float32"),
    ]
    found = listed_model(entries_of(flat), Heads())
    assert found.num_layers == 24
    assert num_parameters(found.inventory) == 24 * (512 + 64) * 64 + 64_000
    assert {g.name: g.cut for g in found.inventory}["self_attention.linear_proj.weight"] == 1


class FakeTensor:
    def __init__(self, *shape: int) -> None:
        self.shape, self.dtype = shape, "torch.bfloat16"


class FakeModule:
    """What is read of a module, without torch."""

    class config:  # noqa: N801 - as transformers has it
        @staticmethod
        def to_dict() -> dict[str, Any]:
            return {"num_attention_heads": 4, "num_key_value_heads": 2, "num_experts_per_tok": 3}

    def __init__(self) -> None:
        shared = FakeTensor(100, 16)
        layers = {f"h.{i}.attn.q_proj.weight": FakeTensor(16, 16) for i in range(3)}
        self._parameters = {"wte.weight": shared, **layers, "lm_head.weight": shared}

    def named_parameters(self, *, remove_duplicate: bool) -> list[tuple[str, FakeTensor]]:
        assert not remove_duplicate
        return list(self._parameters.items())

    def named_buffers(self) -> list[tuple[str, FakeTensor]]:
        return [("rotary.inv_freq", FakeTensor(4))]


def test_a_module_is_listed_without_torch() -> None:
    model = from_module(FakeModule())
    assert [(entry.name, entry.roles) for entry in model.tensors or ()] == [
        ("wte.weight", None),
        ("h.{0..2}.attn.q_proj.weight", None),
        ("lm_head.weight", ("tied",)),
        ("rotary.inv_freq", ("buffer",)),
    ]
    assert (model.num_attention_heads, model.num_kv_heads, model.num_experts_per_token) == (4, 2, None)
    assert resolve(model).num_parameters == 1600 + 3 * 256
