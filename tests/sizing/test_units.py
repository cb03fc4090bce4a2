"""Units: what people write is read as they mean it, and refused where it could mean two things."""

import hypothesis
import pytest
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from sizing.units import (
    ByteCount,
    BytesPerSecond,
    PositiveSeconds,
    binary_bytes_text,
    bytes_text,
    decimal_bytes_text,
    min_rate_text,
    min_seconds_text,
    parse_bytes,
    parse_bytes_per_second,
    parse_count,
    parse_fraction,
    parse_seconds,
    rate_text,
    seconds_text,
)


class Amounts(BaseModel):
    size: ByteCount = 1
    rate: BytesPerSecond = 1.0
    time: PositiveSeconds = 1.0


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("1 kB", 1_000),
        ("1 KB", 1_000),
        ("1 KiB", 1_024),
        ("1 GB", 1_000_000_000),
        ("1 GiB", 1_073_741_824),
        ("13.8TB", 13_800_000_000_000),
        ("0.5 PiB", 562_949_953_421_312),
        ("1e12 B", 1_000_000_000_000),
        ("14_112_542_617_600 B", 14_112_542_617_600),
        ("0", 0),
        ("1,024 B", 1_024),
        ("13.8 tb", 13_800_000_000_000),
        ("2 gib", 2_147_483_648),
    ],
)
def test_a_size_is_read_with_its_unit(text: str, num_bytes: int) -> None:
    assert parse_bytes(text) == num_bytes


@pytest.mark.parametrize(
    "text", ["1 Gb", "1 gbit", "1 Gbit", "1 Gib", "1 b", "12 XB", "GB", "", "1 GB/s", "1.2.3 GB", "-1 GB"]
)
def test_a_size_that_could_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        parse_bytes(text)


def test_a_size_without_a_unit_is_refused_as_text_and_bytes_as_a_number() -> None:
    with pytest.raises(PydanticCustomError, match="is a size without a unit: write the unit too, for example 80 GB"):
        parse_bytes(" 80 ")
    assert parse_bytes(80) == 80


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("273 GB/s", 273e9),
        ("273GBps", 273e9),
        ("500 gb/s", 500e9),
        ("500 GB / SEC", 500e9),
        ("1 gib/s", 2.0**30),
        ("400 Gb/s", 50e9),
        ("400 Gbps", 50e9),
        ("400 gbit/s", 50e9),
        ("1 GiB/s", 2.0**30),
    ],
)
def test_a_rate_is_read_in_bytes_or_bits_per_second(text: str, rate: float) -> None:
    assert parse_bytes_per_second(text) == rate


@pytest.mark.parametrize("text", ["273 GB", "1 Gib/s", "fast", "1 GB/min", "9" * 70])
def test_what_is_not_a_rate_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        parse_bytes_per_second(text)


@pytest.mark.parametrize(
    "text", ["1,5 GB/s", "7,55 TB/s", "1,5000 GB/s", "12,34,567 GB/s", "1000,000 GB/s", "1,5 gb/s", "0,250 GB/s"]
)
def test_a_comma_of_decimals_is_refused_rather_than_left_out(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="has a comma that does not separate thousands"):
        parse_bytes_per_second(text)


def test_a_comma_before_three_digits_separates_thousands() -> None:
    assert parse_bytes_per_second("1,234.5 GB/s") == 1_234.5e9
    assert parse_bytes("1,234,567 B") == 1_234_567
    assert parse_seconds("1,800s") == 1800


@pytest.mark.parametrize("mark", [" ", "\u00a0", "\u2009", "\u202f", "'", "\u2019"])
def test_a_space_or_an_apostrophe_before_three_digits_separates_thousands(mark: str) -> None:
    assert parse_bytes_per_second(f"1{mark}234.5 GB/s") == 1_234.5e9
    assert parse_bytes(f"1{mark}234{mark}567 B") == 1_234_567
    with pytest.raises(PydanticCustomError, match="is not a size"):
        parse_bytes(f"1{mark}23 TB")


def test_points_between_thousands_are_refused_with_what_to_write() -> None:
    with pytest.raises(PydanticCustomError, match=r"has points between thousands.*write 1500000"):
        parse_bytes("1.500.000 TB")


@pytest.mark.parametrize(("text", "said"), [("500G", "500GB, or 500GiB"), ("1.5 t", "1.5TB, or 1.5TiB")])
def test_a_size_without_its_b_could_be_powers_of_1000_or_of_1024(text: str, said: str) -> None:
    with pytest.raises(PydanticCustomError, match=f"powers of 1000 or of 1024: write {said} as du and lsblk count"):
        parse_bytes(text)


def test_steps_are_no_time() -> None:
    with pytest.raises(
        PydanticCustomError, match=r"is in steps: .* an interval in steps is checkpoint\.interval_steps"
    ):
        parse_seconds("500steps")


@pytest.mark.parametrize("text", ["500 gbps", "500 GBPS"])
def test_a_rate_that_could_be_bits_or_bytes_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="could be bits or bytes: write GB/s for bytes or Gb/s for bits"):
        parse_bytes_per_second(text)


def test_a_rate_has_its_unit_where_it_is_text_and_is_in_bytes_per_second_where_it_is_a_number() -> None:
    with pytest.raises(PydanticCustomError, match="is a rate without a unit: write the unit too, for example 500 GB/s"):
        parse_bytes_per_second("500")
    assert Amounts.model_validate({"rate": 500}).rate == 500


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4h", 14_400),
        ("90 s", 90),
        ("1h 30min", 5_400),
        ("500ms", 0.5),
        ("2 days", 172_800),
        ("1hr", 3_600),
        ("2 Hours", 7_200),
        ("1H 30MIN", 5_400),
        ("45 mins", 2_700),
        ("1 week", 604_800),
    ],
)
def test_a_duration_is_read_with_its_units(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["4 hours ago", "", "h", "1 2", "4 fortnights", "h4", "3M"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        parse_seconds(text)


def test_a_long_duration_is_refused_rather_than_cut() -> None:
    assert parse_seconds("1h  " * 16) == 16 * 3_600
    with pytest.raises(PydanticCustomError, match="must have at most 64 characters"):
        parse_seconds("1h  " * 30)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("400B", 400 * 10**9),
        ("1.5b", 1_500_000_000),
        ("70 M", 70_000_000),
        ("1t", 10**12),
        ("405 billion", 405 * 10**9),
    ],
)
def test_a_number_of_parameters_is_read_as_models_are_named(text: str, number: int) -> None:
    assert parse_count(text) == number
    assert isinstance(parse_count(text), int)


def test_a_number_of_parameters_has_no_unit() -> None:
    with pytest.raises(PydanticCustomError, match="write k, M, B or T behind it at most"):
        parse_count("400 GB")


@pytest.mark.parametrize(("text", "fraction"), [("5%", 0.05), ("7.5 %", 0.075), ("100%", 1.0), ("0.05", "0.05")])
def test_a_share_is_read_in_percent_too(text: str, fraction: float | str) -> None:
    assert parse_fraction(text) == fraction


@pytest.mark.parametrize(
    "amounts",
    [
        {"size": 0},
        {"size": -1},
        {"size": 1.5},
        {"size": True},
        {"size": float("nan")},
        {"size": float("inf")},
        {"rate": float("nan")},
        {"rate": 0},
        {"time": 0},
        {"time": float("inf")},
        {"time": True},
        {"size": "9" * 10_000},
    ],
)
def test_amounts_out_of_range_are_refused(amounts: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Amounts.model_validate(amounts)


def test_a_whole_number_that_json_wrote_as_a_float_is_bytes() -> None:
    assert Amounts.model_validate({"size": 13.8e12}).size == 13_800_000_000_000


def test_decimal_and_binary_are_told_apart() -> None:
    assert decimal_bytes_text(2**40) == "1.100 TB"
    assert binary_bytes_text(2**40) == "1.000 TiB"
    assert bytes_text(10**12) == "1.000 TB (931.3 GiB)"


def test_figures_are_printed_with_four_digits() -> None:
    assert rate_text(533_203_125) == "533.2 MB/s"
    assert seconds_text(26.953125) == "26.95 s"
    assert seconds_text(14_400) == "4.00 h"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (rate_text(999.96e6), "1.000 GB/s"),
        (rate_text(999.94e6), "999.9 MB/s"),
        (rate_text(0.019), "below 1 B/s"),
        (rate_text(0), "0 B/s"),
        (decimal_bytes_text(999_960), "1.000 MB"),
        (binary_bytes_text(1024**3 - 1), "1.000 GiB"),
        (seconds_text(0.99999), "1.00 s"),
        (seconds_text(299.999), "5.0 min"),
        (seconds_text(7199.9), "2.00 h"),
    ],
)
def test_what_rounds_to_the_next_unit_is_written_in_it(text: str, written: str) -> None:
    assert text == written


@hypothesis.given(st.floats(1, 1e21))
def test_a_min_rate_as_it_is_written_is_enough_and_little_more(rate: float) -> None:
    assert rate * (1 - 1e-9) <= parse_bytes_per_second(min_rate_text(rate)) <= rate * 1.0011


@hypothesis.given(st.floats(1e-3, 3e9))
def test_a_min_duration_as_it_is_written_is_enough_and_little_more(seconds: float) -> None:
    written = parse_seconds(min_seconds_text(seconds))
    assert seconds * (1 - 1e-9) <= written <= seconds * 1.11
