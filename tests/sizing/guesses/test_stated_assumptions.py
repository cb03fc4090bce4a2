"""A scenario that states exactly what its answer says it assumed has the same answer."""

from __future__ import annotations

import json
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.guesses.fields import field_at
from sizing.report import SizingReport, answer
from tests.examples import examples
from tests.sizing.guesses.scenarios import CHECKPOINT, MODELS, RELIABILITY

FIGURES = """checkpoint layout training host_memory write restore overhead interval shares recovery required tiers
reduction export capacity headline""".split()
"""The blocks of a report that have figures; the others say where figures come from, or compare them with targets."""

PIPELINES: list[dict[str, Any]] = [
    {"pipeline": 4, "data": 2},
    {"pipeline": 4, "loss_counts_as_layer": True},
    {"pipeline": 4, "loss_counts_as_layer": False},
    {"pipeline": 2, "first_stage_layers": 7},
    {"pipeline": 3, "virtual_pipeline": 2},
    {"pipeline": 3, "virtual_pipeline": 2, "embedding_counts_as_layer": True},
]
PEER_MEMORY = {"kind": "peer-memory", "interval_seconds": 600, "replicas": 2, "recovered_fraction": 0.8}
HOST_MEMORY = {"kind": "host-memory", "interval_seconds": 300, "recovered_fraction": 0.5}
SAVES: list[dict[str, Any]] = [
    *CHECKPOINT,
    {"tiers": [PEER_MEMORY]},
    {"tiers": [HOST_MEMORY, PEER_MEMORY], "export": {"every": 3, "written_by": "every-rank"}},
    {"mode": "async", "export": {"every": 2}},
    {"mode": "async", "export": {"every": 2, "written_by": "afterwards"}, "tiers": [PEER_MEMORY]},
    {"mode": "async", "reduction": {"compression": {}}},
]
RATES = {"write_bytes_per_second": 1e11, "read_bytes_per_second": 1e11}


def scenarios() -> st.SearchStrategy[dict[str, Any]]:
    """Scenarios that leave rates of copies, plans and the ends of pipelines open; some have no answer."""
    frameworks: list[dict[str, Any]] = [{"framework": name} for name in ("megatron", "fsdp2", "torchtitan")]
    frameworks += [{"framework": "deepspeed"}, {"framework": "maxtext"}, {}]
    return st.fixed_dictionaries(
        {
            "model": st.sampled_from([*MODELS, {"preset": "llama-3.1-8b"}]),
            "training": st.sampled_from(frameworks),
            "parallelism": st.sampled_from([{"data": 16}, {"tensor": 2, "data": 8}, *PIPELINES]),
            "checkpoint": st.sampled_from(SAVES),
            "cluster": st.sampled_from([{}, {"node": "dgx-a100"}, {"node": "dgx-gb200"}]),
            "storage": st.sampled_from([{"profile": RATES}, {"profile": RATES | {"files_per_second": 1e4}}]),
            "reliability": st.sampled_from([each for each in RELIABILITY if each]),
        }
    )


def stated(document: dict[str, Any], report: SizingReport) -> list[tuple[str, dict[str, Any]]]:
    """The scenario with each value that a field can hold stated, and at last with all of them."""
    found, everything = [], document
    for assumption in report.assumptions:
        try:
            field_at(assumption.field)
        except KeyError:  # of what no field of a scenario says
            continue
        if assumption.field.startswith("model.") and "architecture" not in document["model"]:
            continue  # a preset is whole
        if assumption.value == "unknown":
            continue  # nothing is taken, which no value says
        value = json.loads(json.dumps(assumption.value))
        found.append((assumption.field, with_field(document, assumption.field, value)))
        everything = with_field(everything, assumption.field, value)
    return [*found, ("all of them", everything)]


def figures(report: SizingReport) -> dict[str, float]:
    """Every number of the blocks that have figures, by its path."""
    found: dict[str, float] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict | list):
            for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
                walk(f"{path}.{name}", inner)
        elif isinstance(value, int | float):
            found[path] = value

    for block in FIGURES:
        walk(block, json.loads(json.dumps(getattr(report, block), default=lambda each: each.model_dump())))
    return found


@examples(32)
@hypothesis.given(scenarios())
def test_stating_what_is_assumed_changes_nothing(document: dict[str, Any]) -> None:
    try:
        report = answer(document)
    except InvalidInput:
        hypothesis.reject()
    as_assumed = figures(report)
    for field, saying_it in stated(document, report):
        assert figures(answer(saying_it)) == pytest.approx(as_assumed, rel=1e-9), field


@pytest.mark.parametrize(
    ("checkpoint", "path"),
    [
        ({"tiers": [PEER_MEMORY]}, "write.stall_seconds"),
        ({"mode": "async", "export": {"every": 1}}, "export.stall_seconds"),
    ],
)
def test_the_copy_rate_that_is_assumed_is_the_one_that_counts(checkpoint: dict[str, Any], path: str) -> None:
    document = {
        "model": {"preset": "llama-3.1-8b"},
        "training": {"framework": "deepspeed"},
        "parallelism": {"data": 16},
        "checkpoint": checkpoint,
        "storage": {"profile": RATES},
        "reliability": {"mtbf_seconds": 40_000},
    }
    report = answer(document)
    name = "storage.profile.device_to_host_bytes_per_second"
    rate = next(each.value for each in report.assumptions if each.field == name)
    assert figures(answer(with_field(document, name, rate)))[path] == pytest.approx(figures(report)[path], rel=1e-9)
    guess = next((each for each in report.guesses if each.field == name), None)
    if guess is not None:
        assert guess.headline_low >= report.headline.value >= guess.headline_high
