"""Parts that are kept are not computed again, and the report is the same to the bit."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from sizing.questions.chunks import ItemRange, compute_here, compute_what_is_missing, ignore_progress
from sizing.questions.registry import SWEEP
from sizing.questions.sweep.answer import sweep_to_report
from tests.sizing.questions.test_sweep_chunks import ZIPPED, small_chunks

__all__ = ["small_chunks"]


class Kept:
    """Parts in memory, and which were found and kept."""

    def __init__(self, parts: dict[ItemRange, bytes], *, gone: Iterable[ItemRange] = ()) -> None:
        self.chunks = frozenset([*parts, *gone])
        self.parts = dict(parts)
        self.added: list[ItemRange] = []

    def find(self, chunk: ItemRange) -> bytes | None:
        return self.parts.get(chunk)

    def keep(self, chunk: ItemRange, part: bytes) -> None:
        self.parts[chunk] = part
        self.added.append(chunk)


@pytest.mark.usefixtures("small_chunks")
def test_only_what_is_missing_is_computed_and_kept() -> None:
    question = SWEEP.question
    whole = question.answer_request(ZIPPED).report.model_dump_json()
    first = Kept({})
    answer = question.answer_request(ZIPPED, ignore_progress, compute_what_is_missing(first, compute_here))
    chunks = list(sweep_to_report(ZIPPED).chunks)
    assert (answer.report.model_dump_json(), first.added) == (whole, chunks)
    assert len(chunks) > 2
    for some in (chunks[:1], chunks[1:], chunks[-1:], chunks[::2], chunks):
        heard: list[float] = []
        kept = Kept({chunk: first.parts[chunk] for chunk in some}, gone=[ItemRange(10**6, 10**7)])
        answer = question.answer_request(ZIPPED, heard.append, compute_what_is_missing(kept, compute_here))
        assert answer.report.model_dump_json() == whole
        assert kept.added == [chunk for chunk in chunks if chunk not in some]
        assert heard == sorted(heard)
        assert [share for share in heard if not 0 < share <= 1] == []
        assert heard[-1:] in ([], [pytest.approx(1.0)])


@pytest.mark.usefixtures("small_chunks")
def test_a_part_that_is_gone_meanwhile_is_computed() -> None:
    whole = SWEEP.question.answer_request(ZIPPED).report.model_dump_json()
    chunks = list(sweep_to_report(ZIPPED).chunks)
    kept = Kept({}, gone=chunks[:2])
    answer = SWEEP.question.answer_request(ZIPPED, ignore_progress, compute_what_is_missing(kept, compute_here))
    assert (answer.report.model_dump_json(), kept.added) == (whole, chunks)


def test_a_question_of_one_chunk_keeps_nothing() -> None:
    kept = Kept({})
    SWEEP.question.answer_request(ZIPPED, ignore_progress, compute_what_is_missing(kept, compute_here))
    assert kept.added == []
