"""What a sizing costs is known before it runs: what is costly goes elsewhere, what is usual does not."""

import tracemalloc
from typing import Any

import pytest

from service.answers.quick import MAX_HOLDINGS, MAX_LAYOUT_CHARACTERS, is_costly, num_holdings
from sizing.errors import InvalidInput
from sizing.model.catalog import catalog
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.sized_layout import layout_text

UNLIKE = [1 + (stage * 7 % 5) for stage in range(1024)]
"""Layers by stage, none with as many as its neighbour."""


def dense(num_layers: int) -> dict[str, Any]:
    shape = {"hidden_size": 1024, "num_attention_heads": 8, "vocab_size": 32000}
    return {"architecture": {"family": "llama", "num_layers": num_layers, **shape}}


UNLIKE_STAGES = {
    "model": dense(sum(UNLIKE)),
    "parallelism": {"pipeline": len(UNLIKE), "layers_per_stage": UNLIKE, "data": 8},
}


def is_for_others(document: Any) -> bool:
    scenario = scenario_from(document)
    return is_costly(scenario, layout_text(scenario))


def test_no_preset_on_an_even_pipeline_is_costly() -> None:
    costly = [name for name in catalog() if is_for_others({"model": {"preset": name}, "parallelism": {"data": 64}})]
    assert not costly
    reference = {"model": {"preset": "llama-3.1-405b"}, "parallelism": {"tensor": 8, "pipeline": 16, "data": 128}}
    assert not is_for_others(reference)


def test_stages_count_where_they_differ() -> None:
    num_groups = num_holdings(scenario_from({"model": dense(64)}))
    assert 5 < num_groups < 20
    alike = {"model": dense(1024), "parallelism": {"pipeline": 1024, "layers_per_stage": [1] * 1024}}
    assert num_holdings(scenario_from(alike)) == 3 * num_groups, "the first, the last, and those between"
    assert num_holdings(scenario_from(UNLIKE_STAGES)) == 1024 * num_groups
    assert is_for_others(UNLIKE_STAGES)


def test_stages_that_restore_count_too() -> None:
    restored = {"model": dense(sum(UNLIKE)), "checkpoint": {"restore_parallelism": UNLIKE_STAGES["parallelism"]}}
    alone = num_holdings(scenario_from(UNLIKE_STAGES))
    assert num_holdings(scenario_from(restored)) == alone + num_holdings(scenario_from({"model": dense(sum(UNLIKE))}))


@pytest.mark.parametrize("num_tensors", [MAX_HOLDINGS + 1, 5000])
def test_a_long_list_of_tensors_is_costly(num_tensors: int) -> None:
    tensors = [{"name": f"w{n}", "shape": [64 + n], "dtype": "bf16"} for n in range(num_tensors)]
    assert is_for_others({"model": {"tensors": tensors}})
    assert not is_for_others({"model": {"tensors": tensors[:100]}})


def test_what_is_too_long_to_be_counted_is_costly() -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config |= {"num_key_value_heads": 4, "intermediate_size": 64, "vocab_size": 1000}
    assert not is_for_others({"model": {"huggingface_config": config}})
    assert is_for_others({"model": {"huggingface_config": config | {"notes": "x" * MAX_LAYOUT_CHARACTERS}}})


def test_what_is_refused_costs_nothing() -> None:
    short = UNLIKE_STAGES | {"model": dense(7)}
    assert num_holdings(scenario_from(short)) == 0
    with pytest.raises(InvalidInput):
        answer(scenario_from(short))


MANY_EXPERTS = {
    "family": "mixtral",
    "num_layers": 10_000,
    "hidden_size": 64,
    "num_attention_heads": 1,
    "vocab_size": 1000,
    "ffn_hidden_size": 64,
    "num_experts": 64,
    "num_experts_per_token": 2,
}


@pytest.mark.parametrize("format_name", ["torch-dist", "fsdp-dtensor"])
def test_ranks_count_where_a_format_walks_over_them(format_name: str) -> None:
    asked = {
        "model": {"preset": "deepseek-v3"},
        "parallelism": {"data": 98_304},
        "training": {"framework": "megatron", "distributed_optimizer": True},
        "checkpoint": {"format": format_name},
    }
    assert is_for_others(asked)
    assert not is_for_others(asked | {"checkpoint": {"format": "megatron"}})
    assert not is_for_others(asked | {"parallelism": {"tensor": 8, "pipeline": 16, "data": 1024}})
    few = {"data": 64}
    assert is_for_others(asked | {"parallelism": few, "checkpoint": {"restore_parallelism": asked["parallelism"]}})


@pytest.mark.parametrize(("framework", "format_name"), [("fsdp2", "fsdp-sharded"), ("deepspeed", "deepspeed")])
def test_ranks_count_where_each_has_a_file(framework: str, format_name: str) -> None:
    asked = {"model": {"preset": "gpt2"}, "training": {"framework": framework}, "checkpoint": {"format": format_name}}
    assert not is_for_others(asked | {"parallelism": {"data": 131_072}})
    assert is_for_others(asked | {"parallelism": {"data": 151_000}})
    restored = {"format": format_name, "restore_parallelism": {"data": 151_000}}
    assert is_for_others(asked | {"parallelism": {"data": 64}, "checkpoint": restored})


def test_more_ranks_than_a_format_walks_over_are_refused_before_there_is_an_array_of_them() -> None:
    asked = {
        "model": {"architecture": MANY_EXPERTS},
        "parallelism": {"pipeline": 10, "data": 999_000},
        "training": {"framework": "megatron"},
        "checkpoint": {"format": "torch-dist"},
    }
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="at most 4,000,000 ranks in format torch-dist"):
            answer(scenario_from(asked))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * 1024**2, "an array over the ranks of one stage has 8 MB"
