"""A sweep in chunks is the sweep: whoever computes them, in whichever order, and wherever it is cut."""

import copy
import random
from typing import Any

import pytest

from sizing.questions.chunks import ItemRange, cut, ignore_progress
from sizing.questions.registry import SWEEP
from sizing.questions.sweep import answer, axes
from sizing.questions.sweep.answer import Sweep, SweepPart, sweep_to_report
from sizing.questions.sweep.request import REFERENCE_SWEEP, SweepRequest
from sizing.report import ScenarioWithLayout, find_layout

SWEPT = SWEEP.question.request.model_validate(
    REFERENCE_SWEEP
    | {
        "scenario": REFERENCE_SWEEP["scenario"]
        | {
            "parallelism": {"tensor": [7, 8], "pipeline": 64, "data": [6, 12]}
        }  # with a tensor degree that has no answer
    }
)
ZIPPED = SWEEP.question.request.model_validate(
    {
        "scenario": copy.deepcopy(REFERENCE_SWEEP["scenario"])
        | {
            "parallelism": {"tensor": 8, "pipeline": 64, "data": [6, 6, 12, 12, 12, 6]},
            "checkpoint": {"format": "megatron", "interval_seconds": [600, 900, 600, 900, 1200, 600]},
            "reliability": {"failures_per_node_day": 0.0065},
            "storage": {"profile": {"write_bytes_per_second": "1 TB/s", "read_bytes_per_second": "1 TB/s"}},
        },
        "combine": "zip",
    }
)


def fronts(request: SweepRequest) -> SweepRequest:
    return request.model_copy(update={"rows": "front", "objectives": ("bandwidth", "goodput")})


REQUESTS = {"all": SWEPT, "front": fronts(SWEPT), "zip": ZIPPED, "front of zip": fronts(ZIPPED)}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "_ROWS_PER_CHUNK", 200)
    monkeypatch.setattr(axes, "_SCENARIOS_PER_CHUNK", 1)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.usefixtures("small_chunks")
def test_parts_computed_apart_and_sent_as_json_make_the_report_of_one_process(name: str) -> None:
    whole = SWEEP.question.answer_request(REQUESTS[name]).report
    work = sweep_to_report(REQUESTS[name])
    assert len(work.chunks) > 2
    sent: dict[ItemRange, str] = {}
    for chunk in random.Random(1).sample(work.chunks, len(work.chunks)):  # noqa: S311 - any order
        elsewhere = sweep_to_report(REQUESTS[name])
        sent[chunk] = elsewhere.compute(chunk, ignore_progress).model_dump_json()
        assert sent[chunk] == elsewhere.compute(chunk, ignore_progress).model_dump_json()
    parts = (SweepPart.model_validate_json(sent[chunk]) for chunk in work.chunks)
    assert work.merge(parts).model_dump_json() == whole.model_dump_json()


@pytest.mark.parametrize("name", REQUESTS)
def test_where_it_is_cut_changes_nothing(name: str, request: pytest.FixtureRequest) -> None:
    in_one = SWEEP.question.answer_request(REQUESTS[name]).report
    assert len(sweep_to_report(REQUESTS[name]).chunks) == 1
    request.getfixturevalue("small_chunks")
    in_many = SWEEP.question.answer_request(REQUESTS[name]).report
    assert in_many.columns == in_one.columns
    assert in_many.rows == in_one.rows
    assert in_many.front == in_one.front
    assert in_many.num_refused_rows == in_one.num_refused_rows


def test_chunks_hold_each_row_once_and_are_cut_where_scenarios_begin() -> None:
    swept = Sweep(SWEEP.question.request.model_validate(with_axes(interval=1_000_000, nodes=300)))
    assert swept.num_rows == 300_000_000
    ends = [chunk.stop for chunk in swept.chunks]
    assert [chunk.start for chunk in swept.chunks] == [0, *ends[:-1]]
    assert ends[-1] == swept.num_rows
    assert max(chunk.stop - chunk.start for chunk in swept.chunks) <= axes._ROWS_PER_CHUNK
    row = 123_456_789
    block = next(swept.rows.blocks(ItemRange(row, row + 1)))
    assert block.num_rows == 1
    assert block.fixed == {"parallelism.data": 1 + row // 1_000_000}
    assert block.arrays["checkpoint.interval_seconds"] == pytest.approx([1.0 + row % 1_000_000])


def open_layouts(**fields: Any) -> SweepRequest:
    scenario = {"model": {"preset": "gpt2"}, "cluster": {"node": "dgx-h100", "num_gpus": 16}} | fields
    return SweepRequest.model_validate({"scenario": scenario, "rows": "front", "objectives": ["stall"]})


def test_layouts_that_are_searched_are_few_in_a_chunk() -> None:
    given, left_open = {"parallelism": {"data": list(range(1, 41))}}, {"cluster": {"num_gpus": list(range(8, 48))}}
    assert len(Sweep(open_layouts(**given)).chunks) == 1
    assert [chunk.start for chunk in Sweep(open_layouts(**left_open)).chunks] == [0, 16, 32]


def test_a_layout_is_searched_once_for_all_rows_of_its_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[Any] = []

    def find(document: dict[str, Any]) -> ScenarioWithLayout:
        searched.append(document)
        return find_layout(document)

    monkeypatch.setattr(answer, "find_layout", find)
    intervals = {"from": 60, "to": 7200, "num": 4 * axes._ROWS_PER_BLOCK}
    swept = Sweep(open_layouts(checkpoint={"interval_seconds": intervals}))
    rows = [ItemRange(0, axes._ROWS_PER_BLOCK + 1), ItemRange(axes._ROWS_PER_BLOCK + 1, swept.num_rows)]
    assert [swept.compute(each, ignore_progress).refused for each in rows] == [[], []]
    assert len(searched) == 1


def test_a_part_does_not_tell_what_other_parts_assumed() -> None:
    request = open_layouts(cluster={"node": ["dgx-h100", "a3-ultra"], "num_gpus": 16})
    alone = Sweep(request).compute(ItemRange(0, 1), ignore_progress)
    after = Sweep(request)
    other = after.compute(ItemRange(1, 2), ignore_progress)
    assert after.compute(ItemRange(0, 1), ignore_progress) == alone
    assert other.layout_judged_by != alone.layout_judged_by


def test_a_range_is_cut_at_each_bound() -> None:
    assert cut([0, 10], max_items=10) == [ItemRange(0, 10)]
    assert cut([0, 10, 11], max_items=100) == [ItemRange(0, 10), ItemRange(10, 11)]


def test_progress_within_a_chunk_is_heard() -> None:
    heard: list[float] = []
    SWEEP.question.answer_request(SWEPT, heard.append)
    assert heard == sorted(heard)
    assert len(heard) == 4  # one for each scenario
    assert heard[-1] == pytest.approx(1.0)


def with_axes(*, interval: int, nodes: int) -> dict[str, Any]:
    return {
        "scenario": {
            "model": {"preset": "gpt2"},
            "parallelism": {"data": list(range(1, nodes + 1))},
            "checkpoint": {"interval_seconds": {"from": 1, "to": interval, "num": interval}},
        },
        "objectives": ["goodput"],
        "rows": "front",
    }
