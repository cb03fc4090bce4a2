"""The inventory counts published architectures to the integer."""

from typing import Any, get_args

import pytest

from sizing.model import Architecture, catalog, num_parameters
from sizing.model.catalog import CatalogModel
from sizing.model.families import TRAITS, Family
from sizing.model.inventory import (
    inventory_of,
    inventory_of_count,
    num_active_parameters,
    num_routed_expert_parameters,
)
from sizing.published import published

MODELS = published("model_parameters")["models"]


def architecture_of(row: dict[str, Any]) -> Architecture:
    fields = {name: value for name, value in row.items() if name in Architecture.model_fields}
    return Architecture.model_validate(fields | {"family": row["family"].split()[0]})


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["name"])
def test_a_published_architecture_has_its_published_number_of_parameters(row: dict[str, Any]) -> None:
    assert num_parameters(inventory_of(architecture_of(row))) == row["num_parameters"]


@pytest.mark.parametrize("row", [row for row in MODELS if "num_experts" in row], ids=lambda row: row["name"])
def test_routed_and_active_parameters_of_a_mixture_are_those_published(row: dict[str, Any]) -> None:
    inventory = inventory_of(architecture_of(row))
    assert num_routed_expert_parameters(inventory) == row["num_routed_expert_parameters"]
    active = num_active_parameters(inventory, num_experts_per_token=row["num_experts_per_token"])
    assert active == row["num_active_parameters"]


@pytest.mark.parametrize("row", [row for row in MODELS if row["name"] in catalog()], ids=lambda row: row["name"])
def test_the_catalog_and_the_published_facts_describe_one_model(row: dict[str, Any]) -> None:
    assert num_parameters(catalog()[row["name"]].inventory) == row["num_parameters"]


@pytest.mark.parametrize("row", published("megatron_table1")["rows"], ids=lambda row: str(row["num_gpus"]))
def test_the_inventory_is_the_megatron_formula_plus_the_final_norm(row: dict[str, Any]) -> None:
    architecture = Architecture(
        family="gpt2",
        hidden_size=row["hidden_size"],
        num_layers=row["num_layers"],
        num_attention_heads=row["num_attention_heads"],
        vocab_size=51_200,
        max_positions=2_048,
    )
    count = num_parameters(inventory_of(architecture))
    assert count - 2 * row["hidden_size"] == row["num_parameters_by_formula"]


def test_every_family_has_its_traits() -> None:
    assert set(TRAITS) == set(get_args(Family))


def test_the_catalog_covers_140_models_and_every_family() -> None:
    assert len(catalog()) >= 140
    assert {model.architecture.family for model in catalog().values() if model.architecture} == set(get_args(Family))


@pytest.mark.parametrize("model", catalog().values(), ids=lambda model: model.name)
def test_a_catalog_model_counts_what_was_published_of_it(model: CatalogModel) -> None:
    assert len(model.source) > 20
    assert (model.num_parameters is None) == (model.num_parameters_source is None)
    if model.num_parameters is not None:
        assert num_parameters(model.inventory) == model.num_parameters


def test_most_of_the_catalog_is_confirmed_by_a_published_integer() -> None:
    assert sum(model.num_parameters is not None for model in catalog().values()) >= 95


def test_a_bare_count_is_that_many_parameters() -> None:
    assert num_parameters(inventory_of_count(1_008_038_758_400)) == 1_008_038_758_400
