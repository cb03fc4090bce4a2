"""Every rate and time of a storage profile is found under its direction."""

import typing

import pytest

from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, RateField, Rates, rates_of

FIELDS: tuple[RateField, ...] = typing.get_args(RateField)


def test_the_names_are_those_of_the_profile() -> None:
    assert set(FIELDS) == StorageProfile.model_fields.keys() - {"measured"}


@pytest.mark.parametrize("field", FIELDS)
def test_a_figure_limits_the_direction_that_its_name_says_and_no_other(field: RateField) -> None:
    found = [direction for direction in DIRECTIONS if rates_of({field: 7.0}, direction) != Rates()]
    assert found == (["read"] if "read" in field else ["write"])


def test_no_two_figures_of_a_direction_are_one() -> None:
    numbers: dict[str, float] = {field: float(place) for place, field in enumerate(FIELDS)}
    found = [rates_of(numbers, direction) for direction in DIRECTIONS]
    seen = [value for rates in found for value in rates if value is not None]
    assert sorted(seen) == sorted(numbers.values())


def test_a_stream_is_buffered_where_that_rate_is_known() -> None:
    direct = StorageProfile(writer_write_bytes_per_second=1e9)
    buffered = StorageProfile(writer_write_bytes_per_second=1e9, writer_buffered_write_bytes_per_second=7e8)
    assert direct.rates("write").stream_bytes_per_second == 1e9
    assert buffered.rates("write").stream_bytes_per_second == 7e8
    assert buffered.direct().rates("write").stream_bytes_per_second == 1e9
