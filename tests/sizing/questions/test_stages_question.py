"""Stages on unlike nodes: against every split of a small model, against today's answer for like nodes, and laws."""

import itertools
from typing import Any

import pytest

from sizing.cluster.cluster import resolve_kinds
from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.questions.registry import STAGES
from sizing.questions.stages.costs import StageCosts
from sizing.questions.stages.report import StagesReport
from sizing.questions.stages.words import stages_summary
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.training.unlike_workers import StagePlacement

SHAPE = {
    "family": "llama",
    "hidden_size": 2048,
    "num_layers": 7,
    "num_attention_heads": 16,
    "vocab_size": 32000,
    "ffn_hidden_size": 8192,
}
BATCH = {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 16}


def small(nodes: Any, *, pipeline: int = 3, data: int = 8, **blocks: Any) -> dict[str, Any]:
    """A model of seven layers."""
    asked = {
        "model": {"architecture": SHAPE},
        "training": BATCH | {"global_batch_size": 8 * data},
        "parallelism": {"pipeline": pipeline, "data": data},
        "cluster": {"nodes": nodes},
    }
    return {"scenario": asked | blocks}


def layers(report: StagesReport) -> list[int]:
    return [stage.num_layers for stage in report.balanced.stages]


def costs_of(question: dict[str, Any]) -> StageCosts:
    scenario = scenario_from(question["scenario"])
    return StageCosts(scenario, resolve_kinds(scenario.cluster), headroom_fraction=0.1)


@pytest.mark.parametrize(
    "nodes",
    [
        "2 x dgx-a100, 1 x dgx-h100",
        "1 x dgx-b200, 2 x dgx-a100",
        [
            {"count": 1, "node": "dgx-a100"},
            {"count": 2, "node_spec": {"gpus_per_node": 8, "gpu": "a100", "gpu_memory_bytes": "14 GB"}},
        ],
    ],
)
def test_no_other_split_and_order_that_fits_has_a_faster_slowest_stage(nodes: Any) -> None:
    question = small(nodes)
    report, costs = STAGES.answer(question), costs_of(question)
    on = [number for number, kind in enumerate(costs.kinds) for _ in range(kind.count)]
    found = []
    for order in set(itertools.permutations(on)):
        for cut in itertools.combinations(range(1, 7), 2):
            edges = itertools.pairwise([0, *cut, 7])
            placed = [StagePlacement(kind, *edge) for kind, edge in zip(order, edges, strict=True)]
            if all(
                costs.memory(n, p.first, p.past).needed_bytes <= costs.room_bytes(p.kind) for n, p in enumerate(placed)
            ):
                found.append(max(costs.step(placed).stage_seconds))
    assert report.balanced.slowest_stage_seconds == pytest.approx(min(found), rel=1e-12)
    assert report.balanced.fits
    assert report.balanced.slowest_stage_seconds <= report.as_given.slowest_stage_seconds or not report.as_given.fits


def test_one_kind_of_nodes_has_the_answer_of_today() -> None:
    flat = small(None)["scenario"] | {"cluster": {"node": "dgx-h100", "num_gpus": 24}}
    listed = small("3 x dgx-h100")
    today, now = answer(flat), answer(listed["scenario"])
    assert now.model_dump() == today.model_dump()
    report, step = STAGES.answer(listed), today.training.step
    assert step is not None
    assert report.as_given.step_seconds == pytest.approx(step.seconds, rel=1e-6)
    assert report.as_given.tokens_per_second == pytest.approx(step.tokens_per_second, rel=1e-6)
    assert max(stage.gpu_bytes for stage in report.as_given.stages) == today.training.total_bytes
    [kind] = report.kinds
    assert kind.written_bytes == report.written_bytes == today.checkpoint.total_bytes


def test_the_change_applies_the_balanced_split_with_nodes_in_its_order() -> None:
    question = small("1 x dgx-a100, 1 x dgx-h100", pipeline=2)
    report = STAGES.answer(question)
    assert [stage.kind for stage in report.balanced.stages] == ["dgx-h100", "dgx-a100"], "the head counts as layers"
    assert report.change["cluster.nodes"] == [{"count": 1, "node": "dgx-h100"}, {"count": 1, "node": "dgx-a100"}]
    again = STAGES.answer({"scenario": with_fields(question["scenario"], report.change)})
    assert again.as_given.model_dump() == report.balanced.model_dump()
    assert (again.change, again.gain_fraction) == ({}, 0.0)
    assert report.gain_fraction > 0.3


def test_more_of_a_faster_kind_is_never_slower() -> None:
    found = [STAGES.answer(small(f"{3 - fast} x dgx-a100, {fast} x dgx-h100")) for fast in (1, 2)]
    ends = [STAGES.answer(small(nodes)) for nodes in ("3 x dgx-a100", "3 x dgx-h100")]
    steps = [report.balanced.slowest_stage_seconds for report in (ends[0], *found, ends[1])]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] > steps[-1]


def test_a_gpu_with_half_the_peak_takes_twice_the_computing_time() -> None:
    spec = {"gpus_per_node": 8, "gpu": "h100", "gpu_memory_bytes": "80 GB", "compute_network_bytes_per_second": 1e18}
    kinds = [{"count": 1, "node_spec": spec}, {"count": 1, "node_spec": spec, "bf16_flops_per_second": 989.4e12 / 2}]
    report = STAGES.answer(small(kinds, pipeline=2))
    costs = costs_of(small(kinds, pipeline=2))
    assert costs.layer_seconds(1) == pytest.approx(2 * costs.layer_seconds(0), rel=1e-3)
    assert {stage.kind: stage.num_layers for stage in report.balanced.stages} == {"kind-1": 5, "kind-2": 2}


def test_the_nodes_of_a_kind_write_what_its_stages_hold_and_a_slow_adapter_bounds_all() -> None:
    slow = [{"count": 1, "node": "dgx-a100", "storage_nics": "1 x 10 Gb/s"}, {"count": 1, "node": "dgx-h100"}]
    storage = {"profile": {"write_bytes_per_second": "50 GB/s", "read_bytes_per_second": "50 GB/s"}}
    report = STAGES.answer(small(slow, pipeline=2, storage=storage))
    old, new = report.kinds
    assert old.written_bytes + new.written_bytes == report.written_bytes
    assert old.num_layers < new.num_layers
    assert old.max_node_bytes == old.written_bytes, "one node has the whole stage"
    assert report.write_limit == "dgx-a100"
    assert report.write_seconds == pytest.approx(old.max_node_bytes / 1.25e9)
    assert (new.node_write_bytes_per_second, new.write_seconds) == (None, None)
    fast = STAGES.answer(small("1 x dgx-a100, 1 x dgx-h100", pipeline=2, storage=storage))
    assert fast.write_limit == "file-system"
    assert fast.write_seconds == pytest.approx(report.written_bytes / 50e9)


def test_where_one_rank_of_a_stage_writes_its_node_alone_does() -> None:
    old_format = {"format": "megatron"}
    report = STAGES.answer(small("2 x dgx-a100, 2 x dgx-h100", pipeline=2, data=16, checkpoint=old_format))
    assert [(kind.num_nodes, kind.num_writing_nodes) for kind in report.kinds] == [(2, 1), (2, 1)]
    assert sum(kind.max_node_bytes for kind in report.kinds) == report.written_bytes


def test_virtual_workers_wait_for_the_slowest_and_a_checkpoint_that_does_not_drain_holds_their_weights() -> None:
    report = STAGES.answer(small("4 x dgx-a100, 4 x dgx-h100", pipeline=4, data=16))
    alone, equal, hybrid = report.virtual_workers
    assert [each.policy for each in report.virtual_workers] == [
        "node-partition",
        "equal-distribution",
        "hybrid-distribution",
    ]
    assert [worker.waiting_fraction for worker in equal.workers] == [0.0]
    assert min(worker.waiting_fraction for worker in alone.workers) == 0.0
    assert max(worker.waiting_fraction for worker in alone.workers) > 0.3, "H100s wait for A100s"
    assert equal.tokens_per_second is not None
    assert alone.tokens_per_second is not None
    assert equal.tokens_per_second > alone.tokens_per_second
    assert hybrid.workers == equal.workers, "two kinds make one pair"
    weights = 2 * answer(small("8 x dgx-a100", pipeline=4, data=16)["scenario"]).model.num_parameters
    assert equal.undrained_bytes is not None
    assert equal.drained_bytes is not None
    kept = (equal.undrained_bytes - equal.drained_bytes) / 16
    assert weights < kept < 4 * weights, "from 4 versions on the first stage to 1 on the last"
    ahead = STAGES.answer(small("4 x dgx-a100, 4 x dgx-h100", pipeline=4, data=16) | {"clock_distance": 4})
    assert ahead.virtual_workers[1].max_stale_minibatches == 22
    assert (ahead.virtual_workers[1].tokens_per_second or 0) > equal.tokens_per_second


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        (small("1 x dgx-a100, 1 x dgx-h100"), "must have as many GPUs as tensor x pipeline x context x data = 24"),
        (
            small("1 x dgx-a100, 2 x dgx-h100", pipeline=2, data=12),
            "whole pipeline stages of tensor x context x data = 12",
        ),
        (small([{"count": 3, "node_spec": {"gpus_per_node": 8, "gpu": "h100"}}]), "gpu_memory_bytes is required"),
        (small([{"count": 3, "node_spec": {"gpus_per_node": 8, "gpu_memory_bytes": "80 GB"}}]), "gpu is required"),
        (
            small([{"count": 3, "node": "dgx-a100", "node_spec": {"gpus_per_node": 8}}]),
            "node or node_spec, one of them",
        ),
        (small("dgx-a100"), "write for example 4 x dgx-a100"),
        (small([{"count": 8, "node": "dgx-a100"}], pipeline=8), "must be at most num_layers 7"),
        (small("3 x dgx-a100", training={}), "sequence_length is required"),
        (
            small("2 x dgx-a100, 1 x dgx-h100", training=BATCH | {"global_batch_size": 64, "schedule": "dualpipe"}),
            "schedule",
        ),
        ({"scenario": {"model": {"preset": "gpt2"}}}, "cluster.nodes is required"),
    ],
)
def test_what_cannot_be_placed_is_refused_by_its_field(question: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        STAGES.answer(question)


def test_where_no_split_fits_the_least_that_is_missing_is_named_and_is_enough() -> None:
    def with_memory(num_bytes: float) -> dict[str, Any]:
        spec = {"gpus_per_node": 8, "gpu": "a100", "gpu_memory_bytes": int(num_bytes)}
        return small([{"count": 1, "node_spec": spec}, {"count": 2, "node_spec": spec | {"gpu": "h100"}}])

    with pytest.raises(InvalidInput, match=r"at least .* more, for any split of the layers to fit") as refused:
        STAGES.answer(with_memory(5e9))
    said = str(refused.value).partition("at least ")[2].split()[0]
    assert STAGES.answer(with_memory(5e9 + (float(said) + 0.01) * 1e9 / 0.9)).balanced.fits
    with pytest.raises(InvalidInput):
        STAGES.answer(with_memory(5e9 + (float(said) - 0.01) * 1e9 / 0.9))


def test_unlike_nodes_are_answered_by_what_bounds_them_all() -> None:
    asked = small("2 x dgx-a100, 1 x dgx-h100")["scenario"]
    report = answer(asked)
    assert report.layout.node == "dgx-a100 and dgx-h100"
    assert report.training.step is None
    assert any(used.field == "cluster.nodes" for used in report.assumptions)
    four = {"gpus_per_node": 4, "gpu": "a100", "gpu_memory_bytes": "80 GB"}
    uneven = small([{"count": 2, "node_spec": four}, {"count": 2, "node": "dgx-h100"}])
    with pytest.raises(InvalidInput, match="ask ckpt-size stages"):
        answer(uneven["scenario"])
    assert [kind.num_stages for kind in STAGES.answer(uneven).kinds] == [1, 2]


def test_a_measured_checkpoint_is_what_the_kinds_write_together() -> None:
    asked = small("2 x dgx-a100, 1 x dgx-h100")
    predicted, measured = (
        STAGES.answer(asked),
        STAGES.answer(
            small("2 x dgx-a100, 1 x dgx-h100", checkpoint={"observed_bytes": 2 * STAGES.answer(asked).written_bytes})
        ),
    )
    assert measured.written_bytes == 2 * predicted.written_bytes
    assert [each.written_bytes for each in measured.kinds] == [2 * each.written_bytes for each in predicted.kinds]


def test_a_stage_shows_two_sends_and_first_and_last_of_a_step_make_one() -> None:
    def with_adapters(rate: str) -> StagesReport:
        node = {
            "gpus_per_node": 8,
            "gpu": "a100",
            "gpu_memory_bytes": "80 GB",
            "compute_network_bytes_per_second": rate,
        }
        question = small([{"count": 2, "node_spec": node}], pipeline=2)
        return STAGES.answer(with_fields(question, {"scenario.training.global_batch_size": 8}))

    fast, slow = (with_adapters(rate) for rate in ("20 GB/s", "10 GB/s"))
    longer = [two.seconds - one.seconds for one, two in zip(fast.balanced.stages, slow.balanced.stages, strict=True)]
    assert longer[0] == pytest.approx(longer[1]) != 0.0
    assert slow.balanced.step_seconds - fast.balanced.step_seconds == pytest.approx(longer[0])
    assert "microbatch and sends" in stages_summary(fast).grids[0].columns
