"""The grid of GPUs says what the report says, GPU by GPU."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.present import gpu_grid as module
from sizing.present.gpu_grid import GpuGrid, gpu_grid
from sizing.report import SizingReport, answer, find_layout
from sizing.scenario import REFERENCE_SCENARIO
from sizing.sized_layout import manifest_of

DENSE = {"model": {"preset": "llama-3.1-8b"}}
SCENARIOS: list[dict[str, Any]] = [
    {name: REFERENCE_SCENARIO[name] for name in ("model", "parallelism", "cluster")},
    DENSE | {"parallelism": {"tensor": 2, "pipeline": 4, "context": 2, "data": 4}},
    DENSE | {"parallelism": {"data": 16, "shard_group": 8}, "training": {"framework": "fsdp2"}},
    DENSE | {"parallelism": {"data": 8}, "training": {"framework": "fsdp2"}, "checkpoint": {"format": "full"}},
    DENSE | {"parallelism": {"tensor": 2, "data": 4, "zero_stage": 1}, "training": {"framework": "deepspeed"}},
    {"model": {"preset": "mixtral-8x7b"}, "parallelism": {"tensor": 2, "pipeline": 2, "data": 8, "expert": 8}},
]


def gridded(document: dict[str, Any]) -> tuple[GpuGrid, SizingReport]:
    scenario = find_layout(document).scenario
    report = answer(scenario)
    grid = gpu_grid(scenario, report)
    assert grid is not None
    return grid, report


def kinds_by_rank(grid: GpuGrid) -> dict[int, int]:
    """The kind of each rank, found as a page finds it."""
    found = {}
    stage = 0
    for each in grid.stages:
        kinds = [kind for count, kind in each.runs for _ in range(count)]
        for number in range(each.num_stages):
            for place, kind in enumerate(kinds):
                replica, tensor = divmod(place, grid.tensor.size)
                data, context = divmod(replica, grid.context.size)
                rank = tensor * grid.tensor.stride + context * grid.context.stride
                rank += data * grid.data.stride + (stage + number) * grid.stage.stride
                found[rank] = kind
        stage += each.num_stages
    return found


@pytest.mark.parametrize("document", SCENARIOS)
def test_each_gpu_writes_what_the_manifest_says(document: dict[str, Any]) -> None:
    grid, report = gridded(document)
    kinds = kinds_by_rank(grid)
    assert sorted(kinds) == list(range(report.layout.num_gpus))
    written = dict.fromkeys(kinds, 0)
    for row in manifest_of(find_layout(document).scenario):
        written[row.rank] += row.tensor_bytes
    assert {rank: grid.kinds[kind].num_bytes for rank, kind in kinds.items()} == written


@pytest.mark.parametrize("document", SCENARIOS)
def test_the_table_counts_every_gpu_once(document: dict[str, Any]) -> None:
    grid, report = gridded(document)
    assert sum(int(count.replace(",", "")) for count, _ in grid.rows) == report.layout.num_gpus
    idle = report.layout.num_gpus - report.layout.num_writers
    assert [count for count, text in grid.rows if text == "writes nothing"] == ([f"{idle:,}"] if idle else [])


def test_the_sentence_says_who_writes() -> None:
    assert gridded(REFERENCE_SCENARIO)[0].sentence == (
        "One model replica is written, not 6: 13.80 TB (12.55 TiB), by 512 of 3,072 GPUs."
    )
    assert gridded(SCENARIOS[2])[0].sentence.endswith("all 16 GPUs share the writing.")
    alone = gridded(DENSE | {"parallelism": {"tensor": 8}})[0].sentence
    assert alone.endswith("are written: all 8 GPUs share the writing.")


def test_more_gpus_than_a_picture_shows_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = find_layout(REFERENCE_SCENARIO).scenario
    report = answer(scenario)
    monkeypatch.setattr(module, "MAX_CELLS", report.layout.num_gpus - 1)
    assert gpu_grid(scenario, report) is None
    monkeypatch.undo()
    monkeypatch.setattr(module, "MAX_RUNS", 1)
    assert gpu_grid(scenario, report) is None
