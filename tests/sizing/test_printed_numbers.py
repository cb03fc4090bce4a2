"""Numbers that are typed as they are printed."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.field_paths import with_fields
from sizing.importers import ConfigText, ImportRequest, import_config_files
from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.registry import DECIDE
from sizing.scenario import scenario_from

PRICE, OTHER = "per_lost_gpu_hour", "offers.0.prices.0.amount"


def decision(**values: object) -> Any:
    paths = {"price": PRICE, "other": OTHER, "currency": "currency"}
    return DECIDE.question.parse_request(
        with_fields(REFERENCE_DECISION, {paths[name]: value for name, value in values.items()})
    )


@pytest.mark.parametrize("text", ["2,048", " 2,048 ", "2048"])
def test_a_count_is_read_with_its_commas(text: str) -> None:
    scenario = scenario_from({"model": {"preset": "gpt2"}, "parallelism": {"data": text}})
    assert scenario.parallelism.data == 2048


@pytest.mark.parametrize("text", ["2,5", "20,48", "2.048,5", "1,00", "2,0480", "$2,048", "2,048 USD"])
def test_a_comma_that_may_be_a_decimal_point_is_not_guessed_at(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"parallelism.data must be a whole number"):
        scenario_from({"model": {"preset": "gpt2"}, "parallelism": {"data": text}})


def of_toml(num_gpus: str) -> Any:
    """A scenario in TOML with a number of GPUs and prices as they are printed."""
    toml = f'''
model.preset = "gpt2"
cluster.num_gpus = "{num_gpus}"
costs = {{ run_seconds = "30d", per_terabyte = "1,500", per_lost_gpu_hour = "$2.80" }}'''
    return import_config_files(ImportRequest(files=[ConfigText(name="run.toml", content=toml)])).scenario


def test_a_scenario_in_toml_is_read_as_one_in_json() -> None:
    scenario = scenario_from(of_toml("2,048"))
    assert scenario.costs is not None
    assert (scenario.cluster.num_gpus, scenario.costs.per_terabyte) == (2048, 1500)
    assert scenario.costs.per_lost_gpu_hour == 2.8
    for text in ("20,48", "$2,048"):
        with pytest.raises(InvalidInput, match=r"cluster\.num_gpus must be a whole number"):
            of_toml(text)


@pytest.mark.parametrize("text", ["2.5", " 2.5", "1,024.5", "many", "1e9"])
def test_what_is_no_count_is_refused_where_offers_are_judged_without_those_that_break_rules(text: str) -> None:
    document = with_fields(REFERENCE_DECISION, {"odds": {"num_draws": text}})
    with pytest.raises(InvalidInput, match=r"^odds\.num_draws must be a whole number"):
        DECIDE.question.parse_request(document)


@pytest.mark.parametrize("text", ["90 000", "90'000", "90\u2019000", "90\u00a0000", "90\u2009000", "$ 90\u202f000.00"])
def test_prices_are_read_with_spaces_or_apostrophes_between_thousands(text: str) -> None:
    assert decision(price=text).per_lost_gpu_hour == 90_000


def test_points_between_thousands_of_a_price_are_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidInput, match=r"must be a number, got '€1.500.000,50': write 1500000.50, as a point"):
        decision(price="€1.500.000,50")


@pytest.mark.parametrize(("text", "plain"), [("0,250", "0.250"), ("€0,125", "0.125"), ("00,500", "00.500")])
def test_a_price_below_one_with_a_decimal_comma_is_refused_with_what_to_write(text: str, plain: str) -> None:
    with pytest.raises(InvalidInput, match=rf"must be a number, got '{text}': write a point .*{plain}"):
        decision(price=text)


def test_a_space_that_breaks_no_line_is_shown_as_one() -> None:
    with pytest.raises(InvalidInput, match="got '1 500 each'"):
        decision(price="1\u202f500\u00a0each")


def test_prices_are_read_with_sign_or_code() -> None:
    assert decision(price="$2.80", other="$5,000").per_lost_gpu_hour == 2.8
    assert decision(price="1,234.50 USD").per_lost_gpu_hour == 1234.5
    assert decision(price="USD 1,234.50").per_lost_gpu_hour == decision(price="USD1234.5").per_lost_gpu_hour == 1234.5
    assert decision(price="€2.80", currency="EUR").per_lost_gpu_hour == 2.8
    assert decision(price="$2.80", currency="CAD").per_lost_gpu_hour == 2.8


@pytest.mark.parametrize(
    ("price", "currency"), [("€2.80", "USD"), ("2.80 CHF", "USD"), ("CHF 2.80", "USD"), ("$2.80", "EUR")]
)
def test_a_price_in_another_currency_is_refused(price: str, currency: str) -> None:
    with pytest.raises(InvalidInput, match=f"{PRICE} must be in the currency of the other prices, {currency}, got"):
        decision(price=price, currency=currency)


@pytest.mark.parametrize(("first", "second", "currency"), [("$200", "€400", "USD"), ("€200", "$400", "CHF")])
def test_offers_priced_in_several_currencies_are_refused(first: str, second: str, currency: str) -> None:
    priced = with_fields(REFERENCE_DECISION, {OTHER: first, "offers.1.prices.0.amount": second, "currency": currency})
    with pytest.raises(
        InvalidInput, match=rf"^offers\.[01]\.prices\.0\.amount must be in the currency of .* {currency}, "
    ):
        DECIDE.answer(priced)


def test_a_scenario_whose_prices_have_several_currencies_is_refused() -> None:
    costs = {"per_lost_gpu_hour": "$2.80", "run_seconds": "30d", "per_terabyte": "€200"}
    with pytest.raises(InvalidInput, match="must be in the currency of the other prices, €, got"):
        scenario_from({"model": {"preset": "gpt2"}, "costs": costs})
