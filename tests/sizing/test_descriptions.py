"""Every field of every document explains itself, with its unit, wherever its schema is read."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

import sizing
from sizing.checkpoint_files.contents import CheckpointContents
from sizing.questions.cluster.report import ClusterReport
from sizing.questions.simulate.request import ScenarioSimulation
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.storage.calibration import Calibration
from sizing.storage.measurement import BenchmarkResult
from tests.descriptions import flaw_of, flaws_of, models_of

DOCUMENTS = (Scenario, SizingReport, BenchmarkResult, Calibration, ScenarioSimulation, ClusterReport)
MODELS = models_of(sizing)


def test_the_walk_finds_the_models_of_every_document() -> None:
    assert {*DOCUMENTS, CheckpointContents} <= set(MODELS)


def test_every_field_says_in_a_sentence_what_it_is() -> None:
    assert [flaw for model in MODELS for flaw in flaws_of(model)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.__name__)
def test_every_description_reaches_the_schema(document: type[BaseModel]) -> None:
    """Beside a $ref as well: pydantic leaves out one that only repeats what it refers to."""
    schema = document.model_json_schema()
    blocks: dict[str, Any] = {document.__name__: schema, **schema["$defs"]}
    undescribed = [
        f"{name}.{field}"
        for name, block in blocks.items()
        for field, said in block.get("properties", {}).items()
        if not said.get("description")
    ]
    assert undescribed == []


@pytest.mark.parametrize(
    ("name", "description", "flaw"),
    [
        ("num_nodes", "", "has no description"),
        ("num_nodes", "nodes that hold at least one writer", "no sentence"),
        ("num_nodes", "The number of nodes.", "no more than its name"),
        ("num_nodes", "Nodes.", "no more than its name"),
        ("stall_seconds", "Time for which training stands still in each save.", "does not say its unit"),
        ("stall_seconds", "Seconds, or minutes, for which training stands still.", "says minutes"),
        ("max_rank_bytes", "GB that the busiest writer writes, in bytes.", "says GB"),
        ("write_bytes_per_second", "Bytes that the file system takes at most.", "does not say its unit"),
        ("free_fraction", "Percent of the file system that stays free.", "does not say its unit"),
    ],
)
def test_a_description_that_explains_nothing_or_has_another_unit_is_found(
    name: str, description: str, flaw: str
) -> None:
    assert flaw in (flaw_of(name, description) or "")


def test_a_field_that_may_be_left_out_says_what_holds_then() -> None:
    assert flaw_of("preset", "Name of a published model.", is_optional=True) == "does not say what holds without it"
    for ending in (
        "Default: gpt2.",
        "Required with cluster.",
        "Give exactly one of preset and rate.",
        "Null before 3.",
    ):
        assert flaw_of("preset", f"Name of a published model. {ending}", is_optional=True) is None


def test_a_description_that_explains_its_field_passes() -> None:
    assert flaw_of("num_writing_nodes", "Nodes that hold at least one writer.") is None
    assert flaw_of("stall_seconds", "Seconds for which training waits in each save.") is None
