"""What a sizing costs is known before it runs: what is costly goes elsewhere, what is usual does not."""

from typing import Any

import pytest

from service.answers.cost import MAX_HOLDINGS, MAX_LAYOUT_CHARACTERS, is_costly, num_holdings
from sizing.errors import InvalidInput
from sizing.model.catalog import catalog
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.sized import layout_text

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
