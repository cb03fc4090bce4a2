"""Every row of a sweep is the scalar answer, and the front holds what no other row beats."""

import copy
import itertools
import math
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.field_paths import value_at, with_fields
from sizing.questions.registry import SWEEP
from sizing.questions.sweep.figures import FIGURES
from sizing.questions.sweep.report import SweepReport
from sizing.questions.sweep.request import REFERENCE_SWEEP
from sizing.questions.sweep.table import pareto_front
from sizing.questions.sweep.words import sweep_summary
from sizing.report import answer
from sizing.scenario import REFERENCE_SCENARIO, scenario_from
from tests.examples import examples

NUMBERS = [name for name in FIGURES if name not in ("targets.met", "storage.profile.write_bytes_per_second")]


def document(**fields: Any) -> dict[str, Any]:
    """The reference scenario, on any number of GPUs, with fields set by path: two underscores are a dot."""
    asked = copy.deepcopy(REFERENCE_SCENARIO) | {"cluster": {"node": "dgx-a100"}}
    for path, value in fields.items():
        *blocks, name = path.split("__")
        block = asked
        for part in blocks:
            block = block.setdefault(part, {})
        block[name] = value
    return asked


def with_row(asked: dict[str, Any], varied: dict[str, Any]) -> dict[str, Any]:
    changed: Any = copy.deepcopy(asked)
    for path, value in varied.items():
        *blocks, name = path.split(".")
        reduce(lambda block, part: block[int(part) if part.isdigit() else part], blocks, changed)[name] = value
    return dict(changed)


def scalar_figures(asked: dict[str, Any], names: list[str]) -> dict[str, Any]:
    report = answer(scenario_from(asked)).model_dump()
    return {name: value_at(report, name) for name in names}


def assert_rows_are_answers(asked: dict[str, Any], report: SweepReport, paths: list[str]) -> None:
    for row in report.rows:
        cells = dict(zip(report.columns, row, strict=True))
        scalar = scalar_figures(with_row(asked, {path: cells[path] for path in paths}), NUMBERS)
        for name, expected in scalar.items():
            if isinstance(expected, float | int) and not isinstance(expected, bool):
                assert cells[name] == pytest.approx(expected, rel=1e-9), name
            else:
                assert cells[name] == expected, name


def values(low: float, high: float) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(low, high), min_size=1, max_size=3)


AXES: dict[str, st.SearchStrategy[list[Any]]] = {
    "storage.profile.write_bytes_per_second": values(1e9, 1e13),
    "storage.profile.read_bytes_per_second": values(1e9, 1e13),
    "storage.profile.node_write_bytes_per_second": values(1e9, 1e11),
    "storage.profile.node_read_bytes_per_second": values(1e9, 1e11),
    "storage.profile.writer_write_bytes_per_second": values(1e8, 1e10),
    "storage.profile.files_per_second": values(10, 1e5),
    "storage.profile.fixed_write_seconds": values(0, 100),
    "storage.profile.fixed_read_seconds": values(0, 100),
    "checkpoint.interval_seconds": values(10, 1e5),
    "reliability.failures_per_node_day": values(1e-6, 10),
    "reliability.detection_seconds": values(0, 1e4),
    "retention.keep_last": st.lists(st.integers(1, 100), min_size=1, max_size=3),
    "retention.keep_best": st.lists(st.integers(0, 100), min_size=1, max_size=3),
    "retention.keep_weights_every": st.lists(st.integers(1, 100), min_size=1, max_size=3),
    "retention.free_fraction": values(0, 0.9),
    "retention.redundancy_fraction": values(0, 3),
    "targets.max_overhead_fraction": values(1e-3, 1),
    "targets.max_stall_seconds": values(1, 1e4),
    "targets.recovery_seconds": values(1, 1e4),
    "targets.min_goodput_fraction": values(0.1, 0.9),
    "costs.per_terabyte": values(0, 100),
    "costs.per_gigabyte_per_second": values(0, 1e4),
    "costs.per_lost_gpu_hour": values(0, 10),
    "parallelism.data": st.lists(st.integers(1, 64), min_size=1, max_size=2),
    "training.optimizer": st.lists(st.sampled_from(["adam", "lion"]), min_size=1, max_size=2),
}


@examples(60)
@given(st.data())
def test_every_row_is_the_scalar_answer(data: st.DataObject) -> None:
    paths = data.draw(st.lists(st.sampled_from(sorted(AXES)), min_size=1, max_size=4, unique=True))
    asked = document()
    asked["costs"] = {"per_terabyte": 1, "per_lost_gpu_hour": 1, "run_seconds": "30d"}
    for path in paths:
        *blocks, name = path.split(".")
        reduce(lambda block, part: block.setdefault(part, {}), blocks, asked)[name] = data.draw(AXES[path])
    report = SWEEP.answer({"scenario": asked, "figures": NUMBERS})
    assert len(report.rows) == report.num_rows
    assert_rows_are_answers(asked, report, paths)


def test_asynchronous_rows_with_components_of_failure_are_answers_too() -> None:
    asked = document(
        checkpoint={"mode": "async", "format": "torch-dist", "interval_seconds": ["2 min", "1h"]},
        reliability={
            "components": [{"name": "GPU", "per": "gpu", "mtbf_seconds": ["20000h", "50000h"]}],
            "relaunch_seconds": [60, 600],
        },
        storage__profile__device_to_host_bytes_per_second=["1 GB/s", "20 GB/s"],
    )
    report = SWEEP.answer({"scenario": asked, "figures": NUMBERS})
    assert report.num_rows == 16
    paths = ["checkpoint.interval_seconds", "reliability.relaunch_seconds", "reliability.components.0.mtbf_seconds"]
    assert_rows_are_answers(asked, report, [*paths, "storage.profile.device_to_host_bytes_per_second"])


def test_rows_with_tiers_are_answers_and_those_out_of_order_have_none() -> None:
    rates = {"profile": {"node_write_bytes_per_second": "10 GB/s", "node_read_bytes_per_second": "20 GB/s"}}
    asked = document(
        checkpoint={
            "mode": "async",
            "format": "torch-dist",
            "interval_seconds": ["8min", "1h", "2h"],
            "tiers": [{"kind": "local-nvme", "interval_seconds": "10min", "recovered_fraction": 0.7, "storage": rates}],
        },
        storage__profile__write_bytes_per_second=["100 GB/s", "1 TB/s"],
    )
    asked["checkpoint"]["tiers"][0]["recovered_fraction"] = [0.5, 0.7]
    report = SWEEP.answer({"scenario": asked, "figures": NUMBERS})
    assert (report.num_rows, report.num_refused_rows) == (12, 4)
    assert "of the main storage" in report.refused[0].problem
    paths = ["checkpoint.interval_seconds", "checkpoint.tiers.0.recovered_fraction"]
    assert_rows_are_answers(asked, report, [*paths, "storage.profile.write_bytes_per_second"])


def test_a_product_varies_the_last_field_fastest_and_layouts_slowest() -> None:
    asked = document(
        parallelism__data=[1, 2],
        checkpoint__interval_seconds=["1h", "2h"],
        storage__profile__write_bytes_per_second=["100 GB/s", "200 GB/s"],
    )
    report = SWEEP.answer(asked)
    paths = ["parallelism.data", "checkpoint.interval_seconds", "storage.profile.write_bytes_per_second"]
    assert report.columns[:3] == paths
    assert [tuple(row[:3]) for row in report.rows] == list(itertools.product([1, 2], [3600, 7200], [1e11, 2e11]))


def test_zip_takes_the_first_values_together() -> None:
    asked = document(parallelism__data=[1, 1, 6], checkpoint__interval_seconds=["1h", "2h", "3h"])
    report = SWEEP.answer({"scenario": asked, "combine": "zip"})
    assert [row[:2] for row in report.rows] == [[1, 3600], [1, 7200], [6, 10800]]
    assert_rows_are_answers(
        asked, SWEEP.answer({"scenario": asked, "combine": "zip", "figures": NUMBERS}), report.columns[:2]
    )


def test_ranges_are_even_or_in_equal_ratios_and_whole_where_the_field_is() -> None:
    rates = {"from": "10 GB/s", "to": "1 TB/s", "num": 5, "scale": "log"}
    asked = document(
        storage__profile__write_bytes_per_second=rates,
        parallelism__data={"from": 1, "to": 8, "num": 4, "scale": "log"},
        checkpoint__interval_seconds={"from": "1h", "to": "2h", "num": 3},
    )
    rows = SWEEP.answer(asked).rows
    assert sorted({row[0] for row in rows}) == [1, 2, 4, 8]
    assert sorted({row[1] for row in rows}) == [3600, 5400, 7200]
    assert sorted({row[2] for row in rows}) == pytest.approx([1e10, 10**10.5, 1e11, 10**11.5, 1e12])


def test_blocks_texts_and_lists_of_lists_vary_too() -> None:
    asked = document(
        storage=[{"preset": None, "profile": {"write_bytes_per_second": "1 GB/s"}}, REFERENCE_SCENARIO["storage"]],
        checkpoint__format=["megatron", "torch-dist"],
        parallelism__layers_per_stage=[[2] * 64, [1] * 32 + [3] * 32],
    )
    report = SWEEP.answer(asked)
    assert report.num_rows == 8
    assert {row[report.columns.index("checkpoint.format")] for row in report.rows} == {"megatron", "torch-dist"}
    once = document(parallelism__layers_per_stage=[2] * 64, checkpoint__interval_seconds=["1h", "2h"])
    assert SWEEP.answer(once).num_rows == 2


def test_rows_without_an_answer_are_counted_with_the_reason_and_the_others_answered() -> None:
    report = SWEEP.answer(document(parallelism__tensor=[3, 8], checkpoint__interval_seconds=["1h", "2h"]))
    assert (report.num_rows, report.num_refused_rows, len(report.rows)) == (4, 2, 2)
    assert report.refused[0].fields == {"parallelism.tensor": 3}
    assert "must divide num_attention_heads" in report.refused[0].problem


def test_the_front_is_what_no_other_row_beats() -> None:
    report = SWEEP.answer(REFERENCE_SWEEP)
    bandwidth = report.columns.index("storage.profile.write_bytes_per_second")
    goodput = report.columns.index("interval.goodput_at_interval_fraction")
    assert report.front is not None
    for place, row in enumerate(report.rows):
        beaten = any(
            other[bandwidth] <= row[bandwidth]
            and other[goodput] >= row[goodput]
            and (other[bandwidth], other[goodput]) != (row[bandwidth], row[goodput])
            for other in report.rows
        )
        assert (place in report.front) is not beaten
    alone = SWEEP.answer(REFERENCE_SWEEP | {"rows": "front"})
    assert alone.rows == [report.rows[place] for place in report.front]
    assert alone.front == list(range(len(alone.rows)))


objective_values = st.integers(0, 5) | st.just(math.nan) | st.just(math.inf)
points = st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[objective_values] * n), min_size=1, max_size=60))


@given(points)
def test_the_front_is_that_of_brute_force(rows: list[tuple[float, ...]]) -> None:
    array = np.array(rows, dtype=np.float64)
    expected = [
        i
        for i, row in enumerate(rows)
        if not any(map(math.isnan, row))
        and not any(all(o <= r for o, r in zip(other, row, strict=True)) and other != row for other in rows)
        and row not in rows[:i]
    ]
    assert pareto_front(array).tolist() == expected


def test_an_objective_that_is_unknown_everywhere_is_said() -> None:
    asked = document(checkpoint__interval_seconds=["1h", "2h"])
    del asked["reliability"]
    report = SWEEP.answer({"scenario": asked, "objectives": ["goodput", "stall"]})
    assert report.front == []
    assert any("objective goodput is unknown" in warning for warning in report.warnings)


BILLION = {"from": 1, "to": 1e6, "num": 1_000_000}


@pytest.mark.parametrize(
    ("request_document", "sentence"),
    [
        (document(), "the scenario must have a list or a range somewhere"),
        (
            document(checkpoint__interval_seconds=[]),
            "checkpoint.interval_seconds must have a value to vary over, got []: give one value or more",
        ),
        (
            document(checkpoint__interval_seconds={"from": 1, "to": 2, "num": 3, "x": 1}),
            "interval_seconds.x is not a known field, got 1: remove it; the fields here are from, to, num, scale.",
        ),
        (document(parallelism__data=[1, True]), "scenario.parallelism.data.1 must be a whole number, got true"),
        (document(training__distributed_optimizer=[True, 1]), "distributed_optimizer.1 must be true or false, got 1"),
        (document(foo=1, parallelism__data=[1, 2]), "scenario.foo is not a known field, got 1"),
        (document(checkpoint__interval_seconds=["1h", "x"]), "checkpoint.interval_seconds.1 is not a duration"),
        (document(checkpoint__interval_seconds=[1, 0]), "checkpoint.interval_seconds.1 must be at least 1 ms"),
        (document(checkpoint__interval_seconds={"from": 1, "to": 2}), "checkpoint.interval_seconds.num is required"),
        (document(checkpoint__interval_seconds={"from": 1, "to": 2, "num": 1e9}), "num must be at most 1000000"),
        (
            document(checkpoint__interval_seconds={"from": 1, "to": "x", "num": 3}),
            "interval_seconds.to is not a duration",
        ),
        (
            document(retention__keep_best={"from": 0, "to": 9, "num": 3, "scale": "log"}),
            "must be more than 0 on the log",
        ),
        (
            document(checkpoint__interval_seconds={"from": "1h", "to": "late", "num": 2}),
            "checkpoint.interval_seconds.to is not a duration",
        ),
        (document(checkpoint__interval_seconds=["1h", "late"]), "checkpoint.interval_seconds.1 is not a duration"),
        (
            document(checkpoint__format={"from": "megatron", "to": "torch-dist", "num": 2}),
            "must be a number to have a range",
        ),
        (
            document(checkpoint__interval_seconds=BILLION, storage__profile__files_per_second=BILLION),
            "the sweep must have at most 1,000,000,000 rows, got '1,000,000,000,000'",
        ),
        (document(checkpoint__interval_seconds=BILLION), "rows must be front for more than 200,000 rows"),
        (
            document(parallelism__data={"from": 1, "to": 100_000, "num": 100_000}),
            "at most 20,000 scenarios",
        ),
        (
            {"scenario": document(checkpoint__interval_seconds=[1, 2]), "objectives": ["speed"]},
            "objectives.0 must be one of",
        ),
        (
            {"scenario": document(checkpoint__interval_seconds=[1, 2]), "figures": ["write.sec"]},
            "figures.0 must be a name",
        ),
        ({"scenario": document(checkpoint__interval_seconds=[1, 2]), "rows": "front"}, "objectives are required"),
        (
            {"scenario": document(checkpoint__interval_seconds=[1, 2], parallelism__data=[1, 2, 3]), "combine": "zip"},
            "zip needs lists of one length, got 'parallelism.data 3, checkpoint.interval_seconds 2'",
        ),
        (document(parallelism__tensor=[7, 9]), "the sweep has no row with an answer: parallelism.tensor"),
        ({"scenario": 7}, "scenario must be an object"),
        ([], "the input must be an object"),
    ],
)
def test_what_cannot_be_swept_is_refused_with_the_limit(request_document: object, sentence: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        SWEEP.answer(request_document)
    assert sentence in str(refused.value)


def test_the_write_rate_that_a_sweep_requires_meets_all_but_the_goodput_that_its_heading_leaves_out() -> None:
    scenario = {
        "model": {"preset": "llama-3.1-70b"},
        "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
        "checkpoint": {"format": "torch-dist", "mode": "async", "interval_seconds": ["20min", "30min"]},
        "storage": {"profile": {"write_bytes_per_second": "10 GB/s", "read_bytes_per_second": "20 GB/s"}},
        "reliability": {"mtbf_seconds": "3h", "relaunch_seconds": "5min"},
        "targets": {"min_goodput_fraction": 0.9, "max_overhead_fraction": 0.01},
    }
    report = SWEEP.answer(scenario)
    required = report.columns.index("required.write_bytes_per_second")
    (grid,) = sweep_summary(report).grids
    assert "required\nwrite bandwidth (without goodput)" in grid.columns
    for row in report.rows:
        fields = {"checkpoint.interval_seconds": row[0], "storage.profile.write_bytes_per_second": row[required]}
        met = {check.target: check.met for check in answer(with_fields(scenario, fields)).targets}
        assert met == {"max_overhead_fraction": True, "min_goodput_fraction": False}


def test_memory_step_and_shares_of_a_rank_are_those_of_the_layout_of_each_row() -> None:
    names = ["training.step.seconds", "training.step.mfu_fraction", "training.total_bytes", "training.gpu_state_bytes"]
    names += ["training.fits", "layout.max_rank_bytes", "training.recomputation"]
    batch = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 1536}
    intervals, degrees = [1800.0, 7200.0], [3, 6]
    asked = document(parallelism__data=degrees, checkpoint__interval_seconds=intervals, training=batch)
    report = SWEEP.answer({"scenario": asked, "figures": names})
    for row in report.rows:
        data, interval, *shown = row
        with_values = {"parallelism.data": data, "checkpoint.interval_seconds": interval}
        assert shown == list(scalar_figures(with_row(asked, with_values), names).values())
    assert len({row[2] for row in report.rows}) == len(degrees)


def test_a_step_that_waits_for_its_host_has_the_rate_of_its_own_row() -> None:
    asked = document(
        training={
            "sequence_length": 2048,
            "micro_batch_size": 1,
            "global_batch_size": 1536,
            "offload": {"activations_fraction": 1.0},
        },
        storage={"profile": {"write_bytes_per_second": 1e11, "device_to_host_bytes_per_second": [1e9, 2e10]}},
    )
    report = SWEEP.answer({"scenario": asked, "figures": ["training.step.offload_seconds"]})
    path, name = "storage.profile.device_to_host_bytes_per_second", "training.step.offload_seconds"
    answered = [scalar_figures(with_row(asked, {path: rate}), [name])[name] for rate, _ in report.rows]
    assert [seconds for _, seconds in report.rows] == answered
    assert answered[0] > answered[1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("training.cannot_run", "take training.fits, yes or no"),
        ("host_memory.node_bytes", "is in the report of one scenario and not in the rows of a sweep"),
        ("training.step.speed", "ckpt-size fields and docs/fields.md list the names of the report"),
    ],
)
def test_a_figure_that_no_row_has_is_refused_with_the_way_to_one(name: str, says: str) -> None:
    asked = document(checkpoint__interval_seconds=[1800, 3600])
    with pytest.raises(InvalidInput, match=says):
        SWEEP.answer({"scenario": asked, "figures": [name]})
