"""Processes of one machine: any number gives the same answer, and one that dies loses or doubles nothing."""

from __future__ import annotations

import functools
import os
import pickle
import sys
from pathlib import Path

import psutil
import pytest

from executors import local
from executors.local import LocalWorkers
from executors.window import ChunkLimits
from sizing.errors import InvalidInput, NotInstalled
from sizing.questions.chunks import ignore_progress
from sizing.questions.registry import SWEEP
from sizing.questions.sweep import axes
from sizing.questions.sweep.answer import stream_sweep, sweep_to_report
from sizing.questions.sweep.request import REFERENCE_SWEEP
from tests.executors.toy_work import Mischief, Sum, ToyWork

LIMITS = ChunkLimits(max_seconds=60.0, max_bytes=1 << 30)


def summed(
    num_items: int,
    mischief: Mischief = "none",
    folder: Path | None = None,
    limits: ChunkLimits = LIMITS,
    num_workers: int = 2,
) -> Sum:
    make = functools.partial(ToyWork, num_items, mischief, folder)
    work = make()
    return work.merge(LocalWorkers(num_workers, limits).compute(work, make, ignore_progress))


def test_other_processes_compute_the_chunks_and_end_with_the_question() -> None:
    found = summed(1_000)
    assert found.total == sum(range(1_000))
    assert os.getpid() not in found.pids
    assert not any(psutil.pid_exists(pid) for pid in found.pids)


def test_one_process_has_limits_too() -> None:
    with pytest.raises(InvalidInput, match="items 10 to 20 needs more than"):
        summed(30, "takes memory", num_workers=1)


def test_one_chunk_is_computed_here() -> None:
    assert summed(10) == Sum(total=45, pids=[os.getpid()])


def test_progress_is_heard_as_parts_come() -> None:
    heard: list[float] = []
    make = functools.partial(ToyWork, 50)
    work = make()
    work.merge(LocalWorkers(2, LIMITS).compute(work, make, heard.append))
    assert heard == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])


def test_a_process_that_is_killed_is_replaced_and_its_chunk_counts_once(tmp_path: Path) -> None:
    assert summed(200, "is killed once", tmp_path).total == sum(range(200))


@pytest.mark.parametrize(
    ("mischief", "sentence"),
    [
        ("is killed", "the part of items 10 to 20 needs more than 1.000 GiB of memory, or its process was killed"),
        ("takes memory", "the part of items 10 to 20 needs more than 1.000 GiB of memory, or its process was killed"),
        ("sleeps", "the part of items 10 to 20 takes longer than 2.00 s"),
        ("refuses", "the number must be small, got 10: take a smaller one"),
    ],
)
def test_a_chunk_that_takes_too_much_is_named(mischief: Mischief, sentence: str) -> None:
    limits = LIMITS._replace(max_seconds=2.0) if mischief == "sleeps" else LIMITS
    with pytest.raises(InvalidInput) as refused:
        summed(200, mischief, limits=limits)
    assert sentence in str(refused.value)


def test_who_stops_asking_leaves_no_process() -> None:
    make = functools.partial(ToyWork, 10_000)
    parts = iter(LocalWorkers(2, LIMITS).compute(make(), make, ignore_progress))
    pids = next(parts).pids
    parts.close()  # type: ignore[attr-defined]  # a generator
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_sweep_by_two_processes_is_that_of_one_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "_ROWS_PER_CHUNK", 100)  # the ranges are cut here, and sent
    request = SWEEP.question.request.model_validate(REFERENCE_SWEEP)
    assert len(sweep_to_report(request).chunks) > 2
    alone = SWEEP.question.answer_request(request).report
    together = SWEEP.question.answer_request(request, ignore_progress, LocalWorkers(2).compute).report
    assert together.model_dump_json() == alone.model_dump_json()


def test_rows_come_chunk_by_chunk_and_are_those_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axes, "_ROWS_PER_CHUNK", 100)
    varied = {"parallelism": {**REFERENCE_SWEEP["scenario"]["parallelism"], "tensor": [7, 8]}}
    document = REFERENCE_SWEEP | {"scenario": REFERENCE_SWEEP["scenario"] | varied}
    request = SWEEP.question.request.model_validate(document)
    alone, together = stream_sweep(request), stream_sweep(request, LocalWorkers(2).compute)
    assert alone is not None
    assert together is not None
    assert (together.columns, list(together.rows)) == (alone.columns, list(alone.rows))
    assert [*together.omissions()] == [*alone.omissions()] != []


def test_without_the_library_the_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pebble", None)
    with pytest.raises(
        NotInstalled, match=r"--workers needs the library pebble: pip install 'checkpoint-sizing\[workers\]'"
    ):
        LocalWorkers(2)


@pytest.mark.parametrize("number", [0, -1, local.MAX_WORKERS + 1])
def test_a_number_of_processes_that_is_none_is_refused(number: int) -> None:
    with pytest.raises(InvalidInput, match="--workers must be 1 to 256"):
        LocalWorkers(number)


def test_a_refusal_is_the_same_on_its_way_between_processes() -> None:
    refused = InvalidInput.of("the number", "must be small", value=10, remedy="take a smaller one")
    assert pickle.loads(pickle.dumps(refused)).problems == refused.problems  # noqa: S301 - of this test
