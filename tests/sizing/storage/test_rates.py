"""Every rate and time of a storage profile is found under its direction."""

import pytest

from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, FIGURES, Direction, Rates, document_name

FIELDS = sorted(StorageProfile.model_fields.keys() - {"measured"})
FIGURES_OF_DIRECTIONS = [
    (name, direction)
    for name, figure in FIGURES.items()
    for direction in DIRECTIONS
    if figure.only in (None, direction)
]


def test_documents_of_today_can_be_read_whatever_the_program_calls_their_figures() -> None:
    assert (
        sorted(
            """
        write_bytes_per_second read_bytes_per_second node_write_bytes_per_second node_read_bytes_per_second
        node_buffered_write_bytes_per_second node_buffered_read_bytes_per_second writer_write_bytes_per_second
        process_write_bytes_per_second
        writer_read_bytes_per_second writer_buffered_write_bytes_per_second writer_buffered_read_bytes_per_second
        device_to_host_bytes_per_second files_per_second read_files_per_second file_write_seconds file_read_seconds
        planning_seconds_per_rank read_planning_seconds_per_rank commit_seconds fixed_write_seconds fixed_read_seconds
        writer_write_contention_fraction writer_read_contention_fraction node_write_contention_fraction
        node_read_contention_fraction write_cache_bytes read_cache_bytes beyond_cache_write_bytes_per_second
        beyond_cache_read_bytes_per_second stripe_write_bytes_per_second stripe_read_bytes_per_second
        write_stripe_count read_stripe_count write_knee_power read_knee_power
        """.split()
        )
        == FIELDS
    )


@pytest.mark.parametrize("field", FIELDS)
def test_a_figure_limits_the_direction_that_its_name_says_and_no_other(field: str) -> None:
    found = [direction for direction in DIRECTIONS if Rates.of_document({field: 7.0}, direction) != Rates()]
    assert found == (["read"] if "read" in field else ["write"])


@pytest.mark.parametrize("field", FIELDS)
def test_a_description_speaks_of_its_direction_alone(field: str) -> None:
    description = StorageProfile.model_fields[field].description or ""
    others = ["save", "write rate", "writer"] if "read" in field else ["restore", "read rate", "reader"]
    assert not [word for word in others if word in description]
    assert "{" not in description


@pytest.mark.parametrize(("name", "direction"), FIGURES_OF_DIRECTIONS)
def test_a_document_says_what_was_read_from_it(name: str, direction: Direction) -> None:
    rates = Rates(**{name: 7.0})
    document = rates.document(direction)
    assert document == {document_name(name, direction): 7.0}
    assert Rates.of_document(document, direction) == rates


def test_no_two_figures_of_a_direction_are_one() -> None:
    numbers: dict[str, float] = {field: float(place) for place, field in enumerate(FIELDS)}
    found = [Rates.of_document(numbers, direction) for direction in DIRECTIONS]
    seen = [value for rates in found for value in rates if value is not None]
    assert sorted(seen) == sorted(numbers.values())


def test_a_stream_is_buffered_where_that_rate_is_known() -> None:
    direct = StorageProfile.of(write=Rates(writer_bytes_per_second=1e9))
    buffered = StorageProfile.of(write=Rates(writer_bytes_per_second=1e9, writer_buffered_bytes_per_second=7e8))
    assert direct.write.stream_bytes_per_second == 1e9
    assert buffered.write.stream_bytes_per_second == 7e8
    assert buffered.direct().write.stream_bytes_per_second == 1e9
