"""The catalog of techniques: every published row, each with its source."""

import itertools
from typing import Any

import pytest

from sizing.field_paths import with_fields
from sizing.published import published
from sizing.scenario import scenario_from
from sizing.training.techniques import Technique, techniques

FACTS = published("training_techniques")


def test_every_published_row_is_listed_with_its_source() -> None:
    rows = list(itertools.chain.from_iterable(value for value in FACTS.values() if isinstance(value, list)))
    named = [row.get("technique") or row.get("schedule") for row in rows if "p" not in row]
    formulas = [name.replace("_", " ") for name in FACTS["activation_bytes_per_layer"]["formulas"]]
    assert sorted(technique.name for technique in techniques()) == sorted(named + formulas)
    assert all(technique.source for technique in techniques())


def test_a_schedule_has_its_published_formulas() -> None:
    (found,) = [technique for technique in techniques() if technique.name == "zb-h2"]
    assert (found.bubble, found.in_flight, found.weight_versions, found.scenario) == (
        "0",
        "2 p",
        "1",
        "training.schedule: zb-h2",
    )


@pytest.mark.parametrize("technique", [t for t in techniques() if t.scenario], ids=lambda technique: technique.name)
def test_what_a_scenario_is_told_to_ask_for_is_a_field_with_such_a_value(technique: Technique) -> None:
    training: dict[str, Any] = {"sequence_length": 8, "micro_batch_size": 1, "global_batch_size": 8}
    for setting in (technique.scenario or "").removeprefix("training.").split(", "):
        field, value = setting.split(": ")
        training = with_fields(training, {field: {"true": True, "false": False}.get(value, value)})
    assert scenario_from({"model": {"preset": "gpt2"}, "training": training})
