"""A layout search in chunks is the search: whoever judges the candidates, in whichever order, and wherever it is cut."""

import random
from typing import Any

import pytest

from executors.local import LocalWorkers
from sizing.errors import InvalidInput
from sizing.questions.chunks import ItemRange, ignore_progress
from sizing.questions.layouts import answer
from sizing.questions.layouts.answer import LayoutsPart, LayoutsWork
from sizing.questions.layouts.request import LayoutsRequest
from sizing.questions.registry import LAYOUTS
from tests.examples import spread

QUESTION = LAYOUTS.question


def request(model: str, num_gpus: int, *, asked: dict[str, Any] | None = None, **training: Any) -> LayoutsRequest:
    scenario = {
        "model": {"preset": model},
        "cluster": {"num_gpus": num_gpus, "node": "dgx-h100"},
        "training": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 512} | training,
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "200 GB/s"}},
        "reliability": {"failures_per_node_day": 0.0065},
    }
    return QUESTION.parse_request({"scenario": scenario} | (asked or {}))


REQUESTS = {
    "goodput": request("llama-3.1-70b", 64),
    "step time": request("mixtral-8x7b", 64, asked={"objective": "step-time"}),
    "save time": request("llama-3.1-70b", 64, asked={"objective": "save-time"}),
    "save time with fewer layers": request(
        "llama-3.1-70b", 64, asked={"objective": "save-time", "partial_recomputation": True}
    ),
    "write bandwidth with microbatches": request(
        "llama-3.1-8b", 32, asked={"objective": "write-bandwidth", "micro_batches": [1, 3], "max_layouts": 3}
    ),
    "memory": request("llama-3.1-70b", 64, asked={"objective": "memory", "contexts": [1, 2, 3]}, framework="fsdp2"),
    "nothing fits": request("llama-3.1-405b", 16, asked={"offload": False}),
    "nothing is allowed": request("llama-3.1-8b", 64, micro_batch_size=7),
}


@pytest.mark.parametrize("name", spread(REQUESTS, by_default=["save time", "memory", "nothing fits"]))
def test_parts_judged_apart_and_sent_as_json_make_the_report_of_one_chunk(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = REQUESTS[name]
    monkeypatch.setattr(answer, "_REPORTED_CANDIDATES_PER_CHUNK", 500)
    whole = QUESTION.answer_request(asked).report.model_dump_json()
    assert len(LayoutsWork(asked).chunks) == 1
    for size in ("_CANDIDATES_PER_CHUNK", "_REPORTED_CANDIDATES_PER_CHUNK"):
        monkeypatch.setattr(answer, size, 5)
    work = LayoutsWork(asked)
    assert len(work.chunks) > 2
    sent: dict[ItemRange, str] = {}
    for chunk in random.Random(1).sample(work.chunks, len(work.chunks)):  # noqa: S311 - any order
        sent[chunk] = LayoutsWork(asked).compute(chunk, ignore_progress).model_dump_json()
    report = work.merge(LayoutsPart.model_validate_json(sent[chunk]) for chunk in work.chunks)
    assert report.model_dump_json() == whole


@pytest.mark.long
def test_one_worker_and_two_give_the_same_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "_CANDIDATES_PER_CHUNK", 20)
    asked = REQUESTS["goodput"]
    assert len(LayoutsWork(asked).chunks) > 1
    one, two = (
        QUESTION.answer_request(asked, computer=LocalWorkers(number).compute).report.model_dump_json()
        for number in (1, 2)
    )
    assert one == two


def test_progress_is_told_once_for_each_candidate() -> None:
    heard: list[float] = []
    work = LayoutsWork(REQUESTS["goodput"])
    QUESTION.answer_request(REQUESTS["goodput"], heard.append)
    assert heard == pytest.approx([done / work.chunks[-1].stop for done in range(1, work.chunks[-1].stop + 1)])


def test_a_search_without_candidates_is_one_chunk_of_nothing() -> None:
    asked = request("llama-3.1-8b", 7, asked={"contexts": [2]})
    assert LayoutsWork(asked).chunks == [ItemRange(0, 0)]
    found = QUESTION.answer_request(asked, computer=LocalWorkers(2).compute).report
    assert (found.num_candidates, found.layouts) == (0, [])


def test_what_the_search_lacks_is_refused_before_any_work() -> None:
    scenario = {"model": {"preset": "llama-3.1-8b"}, "cluster": {"node": "dgx-h100"}}
    with pytest.raises(InvalidInput, match=r"^cluster\.num_gpus is required"):
        LayoutsWork(QUESTION.parse_request({"scenario": scenario}))
