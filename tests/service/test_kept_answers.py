"""A question asked again is answered from memory, within bounds, and only where the answer depends on nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.compute import sizings
from service.compute.sizings import AnswerCache, Sizings
from service.settings import Settings
from sizing.scenario import REFERENCE_SCENARIO


def test_those_not_asked_for_longest_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizings, "MAX_CACHED_BYTES", 40)
    answers = AnswerCache()
    for question in (b"1", b"2", b"3"):
        answers.keep(question, b"answer" + question + b"____")
    assert answers.get(b"1") == b"answer1____"
    answers.keep(b"4", b"answer4____")
    assert [answers.get(question) is not None for question in (b"1", b"2", b"3", b"4")] == [True, False, True, True]


def test_a_large_one_is_not_kept() -> None:
    answers = AnswerCache()
    answers.keep(b"small", b"1")
    answers.keep(b"large", bytes(sizings.MAX_ONE_BYTES))
    assert (answers.get(b"small"), answers.get(b"large")) == (b"1", None)


def test_a_question_is_computed_once_word_for_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []
    answered = Sizings.answer

    async def counted(sizings: Sizings, *arguments: Any, **settings: Any) -> bytes:
        computed.append(arguments)
        return await answered(sizings, *arguments, **settings)

    monkeypatch.setattr(Sizings, "answer", counted)
    document, other = (json.dumps(REFERENCE_SCENARIO | {"retention": {"keep_last": kept}}) for kept in (7, 8))
    headers = {"Content-Type": "application/json"}
    with TestClient(create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))) as client:
        first, second, third = (
            client.post("/v1/sizings", content=each, headers=headers).raise_for_status().json()
            for each in (document, document, other)
        )
        assert len(computed) == 2
        assert first == second != third
        html = client.post("/v1/sizings", content=document, headers=headers | {"Accept": "text/html"})
        assert html.text.startswith("<!doctype html>")
        assert len(computed) == 3


def test_an_answer_that_names_a_calibration_is_not_kept(tmp_path: Path) -> None:
    storage = {"storage": {"calibration": "00000000-0000-0000-0000-000000000000"}}
    with TestClient(create_app(Settings(database_url=f"sqlite:///{tmp_path}/x.db"))) as client:
        for _ in range(2):
            assert client.post("/v1/sizings", json=REFERENCE_SCENARIO | storage).status_code == 422
