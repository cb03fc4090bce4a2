"""A pipeline in a V: what stands on its stages, in memory and in files."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.layout import Parallelism
from sizing.layout.chunks import LayerSplit
from sizing.layout.stages import _span, stage_spans
from sizing.model.inventory import Inventory, TensorGroup
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.sized_layout import manifest_of, size_layout
from sizing.state import Training
from sizing.training.schedules import SCHEDULES
from sizing.training.schedules.schedule import PipelineShape
from tests.examples import examples


@pytest.mark.parametrize("schedule", [each for each in SCHEDULES.values() if not each.is_two_way], ids=lambda s: s.name)
def test_a_stage_holds_the_chunks_that_its_schedule_runs(schedule: Any) -> None:
    """Of one layer each."""
    chunks = {"interleaved": 3, "zb-v": 2}.get(schedule.name, 1)
    degrees = Parallelism(pipeline=4, virtual_pipeline=chunks)
    is_folded = Training(schedule=schedule.name, micro_batch_size=1, sequence_length=8).folds_pipeline
    split = LayerSplit.of(degrees, 4 * chunks, is_folded=is_folded)
    for stage in range(4):
        held = tuple(layer for chunk in split.chunks_on(stage) for layer in chunk)
        assert held == schedule.chunks_on(PipelineShape(4, 8, chunks), stage)


@pytest.mark.long
@pytest.mark.parametrize(("num_stages", "num_chunks"), [(1, 2), (4, 2), (5, 2), (3, 4)])
def test_chunks_lie_as_in_torch(num_stages: int, num_chunks: int) -> None:
    utils = pytest.importorskip("torch.distributed.pipelining._utils")
    stage_of = utils.generate_stage_to_rank_mapping(num_stages, num_stages * num_chunks, "v")
    degrees = Parallelism(pipeline=num_stages, virtual_pipeline=num_chunks)
    split = LayerSplit.of(degrees, num_stages * num_chunks, is_folded=True)
    found = {layer: s for s in range(num_stages) for chunk in split.chunks_on(s) for layer in chunk}
    assert found == stage_of
    assert split.last_stage == stage_of[num_stages * num_chunks - 1]


@examples(60)
@given(
    num_stages=st.integers(2, 7),
    num_chunks=st.integers(1, 4),
    each=st.integers(1, 4),
    every=st.integers(1, 5),
    dense=st.integers(0, 5),
    is_folded=st.booleans(),
)
def test_the_stages_of_a_span_hold_alike_and_the_head_stands_with_the_last_layer(
    num_stages: int, num_chunks: int, each: int, every: int, dense: int, is_folded: bool
) -> None:
    """Every stage by itself, with experts in some layers and a tensor in those before."""
    num_layers = num_stages * num_chunks * each
    model: Inventory = (
        TensorGroup("embedding", (9, 2), 9, "first-stage"),
        TensorGroup("norm", (2,), 1, layers=range(num_layers)),
        TensorGroup("up", (6, 2), 6, layers=tuple(range(min(dense, num_layers), num_layers, every)), experts=4),
        TensorGroup("down", (2, 6), 6, layers=range(min(dense, num_layers))),
        TensorGroup("head", (9, 2), 9, "last-stage"),
    )
    model = tuple(group for group in model if group.layers or group.placement != "layers")
    degrees = Parallelism(pipeline=num_stages, virtual_pipeline=num_chunks)
    split = LayerSplit.of(degrees, num_layers, is_folded=is_folded)
    spans = stage_spans(model, degrees, num_layers=num_layers, is_folded=is_folded)
    assert [stage for span in spans for stage in span.stages] == list(range(num_stages))
    for span in spans:
        for stage in span.stages:
            assert _span(model, split, stage, stage + 1).holdings == span.holdings
        assert span.has_head == any(num_layers - 1 in chunk for chunk in span.chunks)
        assert span.has_head == any(holding.name == "head" for holding in span.holdings)


def asked(preset: str, schedule: str, **checkpoint: Any) -> dict[str, Any]:
    step = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 64, "schedule": schedule}
    return {
        "model": {"preset": preset},
        "parallelism": {"tensor": 2, "pipeline": 4, "virtual_pipeline": 2, "data": 2},
        "training": step | ({"distributed_optimizer": True} if checkpoint.get("format") != "megatron" else {}),
        "checkpoint": checkpoint,
        "cluster": {"node": "dgx-h100"},
    }


def states(preset: str, schedule: str) -> list[float]:
    """Parameters on each stage of the first tensor rank."""
    found = size_layout(scenario_from(asked(preset, schedule, format="torch-dist"))).checkpoint_layout.holders
    return [holder.dense.parameters for holder in found if 0 in holder.tensor_ranks for _ in holder.span.stages]


def test_the_first_stage_has_embedding_and_head_and_the_last_neither() -> None:
    """Llama 3.1 8B: an embedding and a head of 128,256 x 4,096 each, cut in two, and a last norm."""
    straight, folded = states("llama-3.1-8b", "interleaved"), states("llama-3.1-8b", "zb-v")
    matrix, norm = 128_256 * 4096 // 2, 4096
    assert straight[0] - straight[1] == matrix
    assert folded[0] - folded[1] == 2 * matrix + norm
    assert folded[1:] == [folded[1]] * 3
    assert sum(folded) == sum(straight)


@pytest.mark.parametrize("format_name", ["torch-dist", "megatron", "megatron-distributed-optimizer"])
def test_files_hold_every_tensor_once_wherever_the_head_stands(format_name: str) -> None:
    """Tied embeddings are one tensor on one stage, and two copies of it in a pipeline that ends elsewhere."""
    reports: dict[str, SizingReport] = {}
    for schedule in ("interleaved", "zb-v"):
        document = asked("llama-3.1-8b", schedule, format=format_name)
        reports[schedule] = answer(scenario_from(document))
        rows = list(manifest_of(scenario_from(document)))
        written = reports[schedule].checkpoint.total_bytes
        assert sum(row.tensor_bytes for row in rows) == pytest.approx(written, rel=1e-9)
    assert reports["zb-v"].checkpoint.total_bytes == reports["interleaved"].checkpoint.total_bytes
    tied = {s: answer(scenario_from(asked("gpt3-175b", s, format=format_name))).checkpoint for s in reports}
    assert tied["zb-v"].total_bytes < tied["interleaved"].total_bytes


def test_the_first_stage_does_the_work_of_the_head() -> None:
    """So its GPU is the fullest, and takes longest, where the head of another pipeline stands on the last stage."""
    found = answer(scenario_from(asked("llama-3.1-8b", "zb-v", format="torch-dist"))).training
    assert found.fullest_stage == 0
    assert found.step is not None


def test_a_device_of_both_ways_runs_half_of_each_of_its_stages() -> None:
    """Llama 3.1 8B on 2 stages: with DualPipe both devices have embedding, head and all layers, for half of the step."""
    steps = {}
    for schedule in ("1f1b", "dualpipe"):
        document = asked("llama-3.1-8b", schedule, format="torch-dist")
        document["parallelism"] |= {"pipeline": 2, "virtual_pipeline": 1}
        steps[schedule] = answer(scenario_from(document)).training.step
    straight, both = steps["1f1b"], steps["dualpipe"]
    assert straight is not None
    assert both is not None
    assert both.compute_seconds < straight.compute_seconds
    assert both.exchange_seconds == pytest.approx(2 * straight.exchange_seconds, rel=0.2)
