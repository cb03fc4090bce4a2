"""The figures of a profile are numbers, whatever else it says of where they come from."""

from __future__ import annotations

from sizing.storage.one_result import profile_of
from tests.sizing.storage.calibration.simulation import result


def test_what_was_measured_is_no_figure() -> None:
    profile = profile_of(result([(1, 2, 10**9)]))
    assert profile.measured is not None
    assert profile.figures()
    assert all(isinstance(value, float) for value in profile.figures().values())
