"""On how many examples a law is held, and which cases of a test wait for an exhaustive run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import hypothesis
import pytest

FEWER = 4
"""By this factor in the default run, which repeats the same ones: new ones are drawn in each exhaustive run, where all are."""
MIN_EXAMPLES = 4


def examples(num: int) -> hypothesis.settings:
    """Hold the law below on so many examples in an exhaustive run, and on fewer by default."""
    default = hypothesis.settings.default
    assert default is not None
    return hypothesis.settings(max_examples=max(num // FEWER, MIN_EXAMPLES) if default.derandomize else num)


def spread(cases: Iterable[Any], *, by_default: Collection[Any]) -> list[Any]:
    """The cases of a test: some by default, which differ most, and the others in an exhaustive run alone."""
    listed = list(cases)
    unknown = [case for case in by_default if case not in listed]
    if unknown:
        raise ValueError(f"no cases of the test: {unknown}")
    return [case if case in by_default else pytest.param(case, marks=pytest.mark.exhaustive) for case in listed]
