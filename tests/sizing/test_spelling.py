"""Names are understood as people type them, and kept as the catalog has them."""

from typing import Any

import pytest

from sizing.cluster import node_catalog
from sizing.errors import InvalidInput
from sizing.layout.formats import FORMATS
from sizing.model import catalog
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.spelling import fitting, known_spelling, nearest
from sizing.storage.catalog import storage_profiles

NAMES = [*catalog(), *node_catalog(), *storage_profiles(), *FORMATS]


@pytest.mark.parametrize("name", NAMES)
def test_case_and_separators_never_change_which_name_is_meant(name: str) -> None:
    for typed in (name.upper(), name.replace("-", "_"), name.replace("-", " "), name.replace(".", "-"), f" {name} "):
        assert known_spelling(typed, NAMES) == name


def test_digits_that_a_separator_parts_are_not_run_together() -> None:
    assert known_spelling("opt-1-3b", NAMES) == "opt-1.3b"
    assert known_spelling("OPT13B", NAMES) == "opt-13b"
    assert known_spelling("llama31405b", NAMES) is None


def test_of_two_names_that_are_spelled_alike_neither_is_guessed_but_each_is_found_as_it_is() -> None:
    assert known_spelling("a-1", ["a_1", "A 1"]) is None
    assert known_spelling("a_1", ["a_1", "A 1"]) == "a_1"


def test_the_scenario_keeps_the_names_of_the_catalogs() -> None:
    typed = {
        "model": {"preset": "meta-llama/Llama-3.1-405B"},
        "cluster": {"node": "DGX-H200"},
        "storage": {"preset": "MLPerf v3 HPE e2000"},
        "training": {"framework": "FSDP2", "precision": "BF16_mixed", "optimizer": "AdamW"},
        "checkpoint": {"format": "FSDP_sharded", "mode": "Async", "restore": "Every_Replica"},
    }
    asked = scenario_from(typed)
    assert asked.model_dump(exclude_unset=True) == {
        "model": {"preset": "llama-3.1-405b"},
        "cluster": {"node": "dgx-h200"},
        "storage": {"preset": "mlperf-v3-hpe-e2000"},
        "training": {"framework": "fsdp2", "precision": "bf16-mixed", "optimizer": "adamw"},
        "checkpoint": {"format": "fsdp-sharded", "mode": "async", "restore": "every-replica"},
    }
    report = answer(asked)
    assert (report.model.name, report.layout.node) == ("llama-3.1-405b", "dgx-h200")


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"model": {"preset": "Llama 8B"}}, "fits 2 names of the catalog, got 'Llama 8B': choose one of llama-3-8b"),
        (
            {"model": {"preset": "gpt2"}, "cluster": {"node": "H100"}},
            "cluster.node fits 3 names of the catalog, got 'H100': choose one of azure-nd-h100-v5, dgx-h100, hgx-h100.",
        ),
        ({"model": {"preset": "lama-3.1-8b"}}, "the nearest of the 208 names are llama-3.1-8b"),
        ({"model": {"preset": "mlperf"}, "storage": {"preset": "x"}}, "must be a name of the catalog"),
        (
            {"model": {"preset": "llama4"}},
            "fits 2 names of the catalog, got 'llama4': choose one of llama-4-maverick, ",
        ),
        (
            {"model": {"preset": "olmo2"}},
            "fits 4 names of the catalog, got 'olmo2': choose one of olmo-2-13b, olmo-2-1b, olmo-2-32b, olmo-2-7b.",
        ),
        ({"model": {"preset": "gpt3"}}, "the nearest of the 208 names are gpt3-175b, "),
        (
            {"model": {"preset": "gemma4"}},
            "gemma-2b; of another model give the config.json (`model.huggingface_config`) or num",
        ),
        *(
            ({"model": {"preset": name}}, f"got '{name}': none of the 208 names is like it; of another model give the ")
            for name in ("rwkv", "baichuan", "xverse")
        ),
        (
            {"model": {"preset": "gpt2"}, "cluster": {"node": "xyz"}},
            f"got 'xyz': none of the {len(node_catalog())} names is like it; ckpt-size nodes lists them; describe another in ",
        ),
    ],
)
def test_a_name_that_could_be_several_lists_them_and_an_unknown_one_the_nearest(document: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        answer(scenario_from(document))
    assert sentence in str(refused.value)


def test_a_number_before_letters_stays_one_part() -> None:
    assert fitting("qwen3 4b", ["qwen3-4b", "qwen3-14b"]) == ["qwen3-4b"]
    assert fitting("mixtral-7b", ["mixtral-8x7b"]) == []


def test_a_long_list_of_names_is_cut() -> None:
    with pytest.raises(InvalidInput, match=r"fits 17 names of the catalog, .* and 9 more"):
        answer(scenario_from({"model": {"preset": "llama"}}))


@pytest.mark.parametrize("typed", ["", " ", "-", "/", "?", "日本"])
def test_what_is_no_name_fits_none(typed: str) -> None:
    assert known_spelling(typed, NAMES) is None
    assert fitting(typed, NAMES) == []
    assert nearest(typed, NAMES, max_names=3) == []


ENDLESS = "-" * 1_000_000
"""As long as a body may be: steps that grow with its square take hours."""


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"training": {"framework": ENDLESS}}, "training.framework"),
        ({"checkpoint": {"mode": f"1{ENDLESS}x"}}, "checkpoint.mode"),
        ({"cluster": {"nodes": f"4 x a{ENDLESS.replace('-', ' ')}b"}}, "cluster.nodes.0.node"),
        ({"cluster": {"storage_nics": f"2 x{ENDLESS.replace('-', ' ')}"}}, "cluster.storage_nics"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_text_without_end_spells_no_name_and_is_refused_at_once(block: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        scenario_from({"model": {"preset": "gpt2"}} | block)
    assert [problem.field for problem in refused.value.problems] == [field]


@pytest.mark.timeout(60)
def test_a_text_without_end_is_like_no_name() -> None:
    assert known_spelling(ENDLESS, NAMES) is None
    assert fitting(ENDLESS, NAMES) == []
    assert nearest(ENDLESS, NAMES, max_names=3) == []
