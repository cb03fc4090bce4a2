"""Null in place of any field of a request: it is the default, or it is refused; no field fails at it."""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Iterator

import pytest
from pydantic import BaseModel, ValidationError

from sizing.questions.registry import QUESTIONS
from sizing.state.training import Adapters


def blocks_of(annotation: object, known: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """Yield every block that may stand in a field, and those within."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in known:
        known.add(annotation)
        yield annotation
        for field in annotation.model_fields.values():
            yield from blocks_of(field.annotation, known)
    for argument in typing.get_args(annotation):
        yield from blocks_of(argument, known)


@pytest.mark.parametrize("name", QUESTIONS)
def test_null_is_read_or_refused_in_every_field(name: str) -> None:
    blocks = list(blocks_of(QUESTIONS[name].question.request, set()))
    assert Adapters in blocks or name == "sweep", "whose scenario is validated when its rows are made"
    for block in blocks:
        for field in block.model_fields:
            with contextlib.suppress(ValidationError):
                block.model_validate({field: None})


def test_tensors_of_adapters_that_are_null_are_the_default_ones() -> None:
    assert Adapters.model_validate({"rank": 8, "tensors": None}) == Adapters(rank=8)
    assert Adapters.model_validate({"rank": 8, "tensors": "a, b"}).tensors == ("a", "b")
