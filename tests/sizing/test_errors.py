"""Errors: field, rule, value and remedy in one sentence, whoever found the mistake."""

from typing import Annotated

import pytest
from pydantic import AfterValidator, Field, ValidationError

from sizing.cli.flags import with_flags
from sizing.errors import InvalidInput, explain
from sizing.questions.registry import COMPARE
from sizing.report import answer
from sizing.run.retention import Retention
from sizing.scenario import scenario_from
from sizing.strict_model import StrictModel

GPT = {
    "family": "gpt2",
    "hidden_size": 768,
    "num_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 50257,
}


def sentences(document: object) -> str:
    with pytest.raises(InvalidInput) as caught:
        answer(scenario_from(document))
    return str(caught.value)


def test_a_short_text_has_too_few_characters_and_no_entries() -> None:
    class Withdrawal(StrictModel):
        reason: Annotated[str, Field(max_length=9), AfterValidator(str), Field(min_length=1)]

    with pytest.raises(ValidationError) as caught:
        Withdrawal.model_validate({"reason": ""})
    assert str(explain(caught.value, Withdrawal)) == (
        "reason must have 1 or more characters, got '': give more characters."
    )


def test_texts_of_digits_are_numbers_and_a_flag_of_yes_is_true() -> None:
    given = with_flags({"model": {"preset": "gpt2"}}, {"tensor": "4", "distributed_optimizer": "yes"})
    scenario = scenario_from(given)
    assert (scenario.parallelism.tensor, scenario.training.distributed_optimizer) == (4, True)
    assert scenario_from({"model": {"preset": "gpt2"}, "parallelism": {"tensor": "4"}}).parallelism.tensor == 4


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "the input must be an object, got []: give an object with named fields."),
        ({}, "model is required: add it."),
        (
            {"model": {"preset": "gpt2"}, "checkpiont": {}},
            "checkpiont is not a known field, got {}: did you mean checkpoint.",
        ),
        (
            {"model": {"preset": "gpt2"}, "write_bytes_per_second": 1},
            "write_bytes_per_second is not a known field, got 1: did you mean storage.profile.write_bytes_per_second.",
        ),
        (
            {
                "model": {"preset": "gpt2"},
                "checkpoint": {"tiers": [{"kind": "local-nvme", "interval_seconds": 60, "write_bytes_per_second": 1}]},
            },
            "checkpoint.tiers.0.write_bytes_per_second is not a known field, got 1: "
            "did you mean checkpoint.tiers.0.storage.profile.write_bytes_per_second.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"tensor": None}},
            "parallelism.tensor must be a whole number, got null: give a whole number.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"tensors": [True, None]}},
            "parallelism.tensors is not a known field, got [true, null]: did you mean tensor.",
        ),
        *(
            ({"model": {"preset": "gpt2"}, **block}, sentence)
            for block, sentence in (
                ({"parallelism": {"tensor": True}}, "parallelism.tensor must be a whole number, got true"),
                ({"costs": {"per_terabyte": True}}, "costs.per_terabyte must be a number, got true"),
                ({"cluster": {"nodes": [{"count": True, "node": "dgx-h100"}]}}, "nodes.0.count must be a whole number"),
                ({"parallelism": {"layers_per_stage": [True, 11]}}, "layers_per_stage.0 must be a whole number"),
                ({"training": {"distributed_optimizer": 1}}, "distributed_optimizer must be true or false, got 1"),
                (
                    {"storage": {"profile": {"write_bytes_per_second": 1e9, "write_stripe_count": True}}},
                    "storage.profile.write_stripe_count must be a number, got true: give a number.",
                ),
                (
                    {"cluster": {"storage_nics": 5}},
                    "cluster.storage_nics must be an object, got 5: give an object with named fields.",
                ),
                (
                    {"training": {"distributed_optimizer": "yes"}},
                    "must be true or false, got 'yes': give true or false",
                ),
            )
        ),
        (
            {"model": {"preset": "gpt2"}, "interval": "1h"},
            "interval is not a known field, got '1h': did you mean checkpoint.interval_seconds.",
        ),
        (
            {"model": {"preset": "gpt2"}, "storage": {"profile": {"write_bytes_per_secnd": 1}}},
            "storage.profile.write_bytes_per_secnd is not a known field, got 1: did you mean write_bytes_per_second.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 0}},
            "parallelism.tensor must be at least 1, got 0: give 1 or more.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"data": -3}},
            "parallelism.data must be at least 1, got -3: give 1 or more.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"pipeline": 2.5}},
            "parallelism.pipeline must be a whole number, got 2.5: give a whole number.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"pipeline": -1e308}},
            "parallelism.pipeline must be a whole number that is not as long, got -1e+308: give one of fewer digits.",
        ),
        (
            {"model": {"preset": "gpt2"}, "training": {"achieved": {"overlap": {"expert": 1.5}}}},
            "training.achieved.overlap.expert must be at most 1.0, got 1.5: for 1.5 percent write 1.5% or 0.015.",
        ),
        (
            {"model": {"preset": "gpt2"}, "training": {"achieved": {"overlap": "all"}}},
            "training.achieved.overlap must be a number, got 'all': give a number.",
        ),
        (
            {"model": {"preset": "gpt2"}, "targets": {"max_overhead_fraction": float("nan")}},
            "targets.max_overhead_fraction must be a finite number, got nan: "
            "give a number that is not NaN or infinite.",
        ),
        (
            {"model": {"preset": "gpt2"}, "targets": {"max_overhead_fraction": "750 %"}},
            "targets.max_overhead_fraction must be at most 1, got '750 %': give 1 or less.",
        ),
        (
            {"model": {"preset": "llama 8b"}},
            "model.preset fits 2 names of the catalog, got 'llama 8b': choose one of llama-3-8b, llama-3.1-8b.",
        ),
        (
            {"model": {"preset": "gpt2"}, "training": {"optimizer": "adamv"}},
            "got 'adamv': the nearest, adam, keeps 8 bytes of each value; choose",
        ),
        (
            {"model": {"preset": "gpt2"}, "reliability": {"failures_per_node_day": "5%"}},
            "reliability.failures_per_node_day must be a number, got '5%': give a number.",
        ),
        (
            {"model": {"preset": "megatron-2t"}},
            "model.preset must be a name of the catalog, got 'megatron-2t': the nearest of the 208 names "
            "are megatron-1t",
        ),
        (
            {"model": {"preset": "gpt2"}, "cluster": {"node": "dgx-a10"}},
            "cluster.node must be a name of the catalog, got 'dgx-a10': the nearest",
        ),
        (
            {"model": {"preset": "gpt2"}, "cluster": {"num_gpus": 9}, "parallelism": {"data": 8}},
            "cluster.num_gpus must equal tensor x pipeline x context x data = 8, got 9: change a degree or num_gpus.",
        ),
        (
            {"model": {"architecture": GPT | {"num_layers": 1_000_000}}},
            "model.architecture.num_layers must be at most 10000, got 1000000: give 10000 or less.",
        ),
        (
            {"model": {"architecture": GPT | {"num_attention_heads": 7}}},
            "has hidden_size 768, which num_attention_heads 7 does not divide",
        ),
        (
            {"model": {"architecture": GPT | {"family": "gpt5"}}},
            "model.architecture.family must be one of 'gpt2',",
        ),
        *(
            (
                {"model": model, "training": training},
                "training.optimizer must be one that needs no shapes of tensors where a trained model is given by its "
                f"parameter count alone, got {training['optimizer']!r}: choose another, or describe the model",
            )
            for model, training in (
                ({"num_parameters": 10**12}, {"optimizer": "shampoo"}),
                ({"num_parameters": 8 * 10**9}, {"optimizer": "adafactor"}),
                ({"num_parameters": 8 * 10**9}, {"optimizer": "muon"}),
                (
                    {"num_parameters": 10**12, "num_active_parameters": 2 * 10**11, "num_experts": 64},
                    {"optimizer": "soap"},
                ),
                ({"preset": "gpt2"}, {"optimizer": "shampoo", "reinforcement": {"critic_parameters": 10**9}}),
            )
        ),
        (
            {
                "model": {"preset": "llama-3-8b"},
                "training": {"framework": "fsdp2", "optimizer": "soap"},
                "parallelism": {"data": 64},
            },
            "training.optimizer must be one that takes parts of matrices, which FSDP2 cuts over 64 ranks, got 'soap': "
            "choose shampoo, muon or adamw, or training.framework megatron or ddp",
        ),
        (
            {"model": {"preset": "gpt2"}, "storage": {"profile": {"write_bytes_per_second": 10**400}}},
            "storage.profile.write_bytes_per_second must be a",
        ),
        (
            {"model": {"preset": "gpt2"}, "targets": {"max_overhead_fraction": 10**400}},
            "targets.max_overhead_fraction must be a",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"data": 10**400}},
            "parallelism.data must be at most",
        ),
        (
            {"model": {"preset": "gpt2", "num_parameters": 7}},
            "model must have exactly one of preset, architecture, huggingface_config, tensors, num_parameters, found preset and ",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"tensor": 5}},
            "parallelism.tensor must divide num_attention_heads 12, got 5: the nearest valid degrees are 4 and 6.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"pipeline": 13}},
            "parallelism.pipeline must be at most num_layers 12, got 13: the nearest valid degree is 12.",
        ),
        (
            {
                "model": {"preset": "llama-3.1-8b"},
                "parallelism": {"pipeline": 2, "layers_per_stage": [16, 15]},
            },
            "parallelism.layers_per_stage must add up to num_layers 32, got 31: correct the layers of a stage.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"pipeline": 2, "layers_per_stage": [12]}},
            "has layers_per_stage for 1 stages and pipeline 2",
        ),
        (
            {"model": {"num_parameters": 7}, "parallelism": {"tensor": 8}},
            "parallelism must have tensor x pipeline up to model.num_parameters 7, got 8: lower tensor or pipeline.",
        ),
        (
            {"model": {"preset": "gpt2"}, "storage": {"profile": {"write_bytes_per_second": "fast"}}},
            "storage.profile.write_bytes_per_second is not a rate, got 'fast': write for example 273 GB/s or 400 Gb/s.",
        ),
        (
            {"model": {"preset": "gpt2"}, "storage": {"profile": {}}},
            "storage.profile must have at least one rate: give write_bytes_per_second: 273 GB/s.",
        ),
        (
            {
                "model": {"preset": "gpt2"},
                "storage": {"profile": {"write_cache_bytes": "1 TB", "beyond_cache_write_bytes_per_second": "1 GB/s"}},
            },
            "storage.profile must say how fast the cache takes bytes, where it has write_cache_bytes or a rate beyond "
            "it: give write_bytes_per_second: 273 GB/s.",
        ),
        (
            {"model": {"preset": "gpt2"}, "reliability": {}},
            "reliability must have exactly one of failures_per_node_day, failures_per_gpu_hour, mtbf_seconds, "
            "components, preset, found none: give one.",
        ),
        (
            {
                "model": {"preset": "gpt2"},
                "training": {"optimizer": "sgd", "saved_state": {"moments": "fp32"}},
            },
            "has saved_state.moments fp32, but optimizer sgd keeps none",
        ),
        (
            {
                "model": {"preset": "gpt2"},
                "training": {"saved_state": {"weights": None, "master": None, "moments": None}},
            },
            "training.saved_state must leave something to save",
        ),
        (
            {
                "model": {"num_parameters": 10**12},
                "parallelism": {
                    "tensor": 4096,
                    "pipeline": 10_000,
                    "data": 2,
                    "rank_order": ["pipeline", "tensor", "context", "expert", "data"],
                },
                "checkpoint": {"format": "megatron"},
            },
            "parallelism must have at most 4,000,000 writers to place on nodes, got 40960000: lower a degree.",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"rank_order": ["data"] * 5}},
            "parallelism has a rank_order that repeats an axis",
        ),
        (
            {"model": {"preset": "gpt2"}, "parallelism": {"data": 1_000_000, "context": 1_000_000}},
            "has a world size (product of the degrees) of 1,000,000,000,000 GPUs, more than 100,000,000",
        ),
    ],
)
def test_bad_input_gets_a_sentence_with_field_rule_value_and_remedy(document: object, sentence: str) -> None:
    assert sentence in sentences(document)


def test_a_field_like_no_other_is_answered_with_those_there_are() -> None:
    assert sentences({"model": {"preset": "gpt2"}, "retention": {"zzz": 1}}) == (
        "retention.zzz is not a known field, got 1: remove it; the fields here are "
        f"{', '.join(Retention.model_fields)}."
    )


def test_every_mistake_of_a_scenario_is_named_at_once() -> None:
    found = sentences({"model": {"preset": "gpt2"}, "parallelism": {"tensor": 0, "data": 0, "expret": 2}})
    assert len(found.splitlines()) == 3


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(sentences({"model": {"preset": "x" * 99}})) < 300


def test_a_list_is_not_called_short_for_entries_that_are_wrong() -> None:
    with pytest.raises(InvalidInput) as caught:
        COMPARE.answer({"scenarios": [{"name": "a", "scenario": 1}, {"name": "b", "scenario": 2}]})
    assert [problem.field for problem in caught.value.problems] == ["scenarios.0.scenario", "scenarios.1.scenario"]
    with pytest.raises(InvalidInput, match="scenarios must have at least 2 entries"):
        COMPARE.answer({"scenarios": []})


def test_the_blocks_in_which_an_unknown_field_may_stand_are_looked_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    misplaced = {"model": {"preset": "gpt2"}, "interval": "1h"}
    first = sentences(misplaced)

    def looked_again(_: object) -> bool:
        raise AssertionError

    monkeypatch.setattr("sizing.errors.holds_list", looked_again)
    assert sentences(misplaced) == first
