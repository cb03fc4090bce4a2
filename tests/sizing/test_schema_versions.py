"""What a scenario leaves open means what it meant when the scenario was made."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.provenance import Assumption
from sizing.report import answer
from sizing.scenario import Scenario, scenario_from
from sizing.schema_versions import (
    FIRST_VERSION,
    FORMER_DEFAULTS,
    SCHEMA_VERSION,
    FormerDefault,
    defaults_then,
)

MODEL: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": 8}}
OF_THEN = {"schema_version": FIRST_VERSION}
RATE: dict[str, Any] = {"reliability": {"mtbf_seconds": "9h"}}


def assumed(document: dict[str, Any]) -> dict[str, Assumption]:
    return {row.field: row for row in answer(document).assumptions}


def test_what_is_asked_today_has_the_defaults_of_today_and_the_report_says_so() -> None:
    report = answer(MODEL)
    assert (report.schema_version, report.checkpoint.format) == (SCHEMA_VERSION, "torch-dist")
    assert "schema_version" not in assumed(MODEL)
    assert answer(MODEL | {"schema_version": SCHEMA_VERSION}) == report


def test_the_first_version_has_the_format_detection_and_relaunch_of_then() -> None:
    report = answer(MODEL | RATE | OF_THEN)
    assert (report.schema_version, report.checkpoint.format) == (1, "megatron")
    rows = assumed(MODEL | RATE | OF_THEN)
    fields = ("checkpoint.format", "reliability.detection_seconds", "reliability.relaunch_seconds")
    assert [rows[field].value for field in fields] == ["megatron", 0, 0]
    assert {rows[field].reason for field in fields} == {"default of schema version 1"}


@pytest.mark.parametrize("name", ["torch-dist", "Torch_Dist", "megatron-distributed-optimizer"])
def test_the_optimizer_of_the_first_version_is_distributed_where_its_format_said_so(name: str) -> None:
    stored = MODEL | OF_THEN | {"checkpoint": {"format": name}}
    told = MODEL | {"checkpoint": {"format": name}, "training": {"distributed_optimizer": True}}
    assert answer(stored).training == answer(told).training
    assert assumed(stored)["training.distributed_optimizer"].value is True


def test_a_distributed_optimizer_of_the_first_version_can_be_read_into_any_layout() -> None:
    checkpoint = {"format": "torch-dist", "restore_parallelism": {"tensor": 2}}
    assert assumed(MODEL | OF_THEN | {"checkpoint": checkpoint})["checkpoint.optimizer_sharding"].value == (
        "fully-reshardable"
    )
    for blocks in ({"checkpoint": {"format": "megatron"}}, {"training": {"distributed_optimizer": False}}):
        assert "checkpoint.optimizer_sharding" not in assumed(MODEL | OF_THEN | blocks)


UNPLANNED = {"profile": {"write_bytes_per_second": 1e9, "planning_seconds_per_rank": 0}}


@pytest.mark.parametrize(
    "blocks",
    [
        {"training": {"framework": "fsdp2"}, "storage": UNPLANNED},
        {"training": {"framework": "deepspeed"}},
        {"checkpoint": {"format": "megatron"}},
    ],
)
def test_what_never_changed_is_answered_alike_in_both_versions(blocks: dict[str, Any]) -> None:
    then, now = answer(MODEL | blocks | OF_THEN), answer(MODEL | blocks)
    said = {"schema_version", "assumptions", "guesses", "guessed_ranges"}
    assert then.model_dump(exclude=said) == now.model_dump(exclude=said)


def test_a_report_warns_of_the_defaults_of_then_that_took_effect() -> None:
    (told,) = [warning for warning in answer(MODEL | RATE | OF_THEN).warnings if "schema version" in warning]
    for field in ("checkpoint.format", "reliability.detection_seconds", "reliability.relaunch_seconds"):
        assert field in told
    assert f"schema_version {SCHEMA_VERSION}, for an answer of today" in told
    assert not any("schema version" in warning for warning in answer(MODEL | RATE).warnings)


@pytest.mark.parametrize(
    "given", [{}, {"storage": {}}, {"storage": {"profile": {}}}, {"storage": {"profile": {"a": 1}}}]
)
def test_a_default_may_stand_in_a_block_of_a_block(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    row = FormerDefault("storage.profile.b", lambda _: 2)
    monkeypatch.setitem(FORMER_DEFAULTS, 1, (row,))
    found = defaults_then(given, 1, always_there=[])
    assert bool(found) is ("profile" in given.get("storage", {}))
    if found:
        assert with_fields(given, found)["storage"]["profile"] == given["storage"]["profile"] | {"b": 2}


def test_what_a_stored_scenario_says_counts_more_than_the_defaults_of_its_time() -> None:
    said = {"reliability": {"mtbf_seconds": "9h", "relaunch_seconds": 60}, "checkpoint": {"format": "torch-dist"}}
    scenario = scenario_from(MODEL | said | OF_THEN)
    assert scenario.checkpoint.format == "torch-dist"
    assert scenario.reliability is not None
    assert (scenario.reliability.detection_seconds, scenario.reliability.relaunch_seconds) == (0, 60)


def test_defaults_of_then_stay_open_in_the_document() -> None:
    """So that a scenario goes through JSON and back, and what is changed later is judged by what was given."""
    stored = scenario_from(MODEL | RATE | OF_THEN)
    assert stored.model_dump(exclude_unset=True) == MODEL | {"reliability": {"mtbf_seconds": 32_400.0}} | OF_THEN
    assert Scenario.model_validate_json(stored.model_dump_json(exclude_unset=True)) == stored


def test_a_measured_restart_goes_with_the_relaunch_of_then() -> None:
    measured = {"reliability": {"mtbf_seconds": "9h", "restart_seconds": "10min"}}
    scenario = scenario_from(MODEL | measured | OF_THEN)
    assert scenario.reliability is not None
    assert scenario.reliability.recovery_seconds(99.0) == 600


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, "1", 1.5, True, [1]])
def test_a_version_that_there_is_not_is_refused(version: object) -> None:
    with pytest.raises(InvalidInput, match="schema_version must be"):
        scenario_from(MODEL | {"schema_version": version})


def test_every_former_default_is_one_of_a_field_of_the_scenario() -> None:
    assert set(FORMER_DEFAULTS) == set(range(FIRST_VERSION, SCHEMA_VERSION))
    for row in (row for rows in FORMER_DEFAULTS.values() for row in rows):
        block, *_, name = row.field.split(".")
        assert name in str(Scenario.model_json_schema()["$defs"]), row.field
        assert block in Scenario.model_fields


@pytest.mark.parametrize(("model_type", "tensors"), [("llama", ("attention",)), ("mamba", None)])
def test_adapters_of_a_stored_scenario_stand_beside_all_of_attention(model_type: str, tensors: object) -> None:
    config = {"model_type": model_type, "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100}
    document = {"model": {"huggingface_config": config}, "training": {"adapters": {"rank": 8}}}
    training = scenario_from(document | {"schema_version": 3}).training
    assert training.adapters is not None
    assert training.adapters.tensors == tensors


@pytest.mark.parametrize(
    ("version", "framework", "precision", "dtype"),
    [
        (3, "fsdp2", None, "fp32"),
        (3, "FSDP-2", "bf16-mixed", "fp32"),
        (3, "fsdp2", "bf16", None),
        (3, "megatron", None, None),
        (4, "fsdp2", None, None),
    ],
)
def test_the_base_of_adapters_of_a_stored_scenario_is_fp32_where_trained_weights_are(
    version: int, framework: str, precision: str | None, dtype: str | None
) -> None:
    training = {"framework": framework, "adapters": {"rank": 8}} | ({"precision": precision} if precision else {})
    scenario = scenario_from({"model": {"preset": "gpt2"}, "training": training, "schema_version": version})
    assert scenario.training.adapters is not None
    assert scenario.training.adapters.base_dtype == dtype
