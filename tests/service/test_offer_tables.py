"""Tables of offers over REST: cells that are pasted become offers that are decided, and offers become a table."""

from __future__ import annotations

import base64

import httpx
import pytest

from sizing.offer_tables import REFERENCE_OFFER_TABLE, read_offers, write_offers
from sizing.questions.decide.request import REFERENCE_DECISION


def test_pasted_cells_become_offers_that_are_decided(client: httpx.Client) -> None:
    table = client.post("/v1/offer-tables", json=REFERENCE_OFFER_TABLE).json()
    assert [offer["name"] for offer in table["offers"]] == ["disk", "flash"]
    decided = client.post("/v1/decisions", json=REFERENCE_DECISION | {"offers": table["offers"]})
    assert decided.status_code == 200, decided.text
    assert {offer["ledger"][0]["amount"] for offer in decided.json()["offers"]} == {450_000, 1_500_000}


def test_offers_become_a_table_that_comes_back(client: httpx.Client) -> None:
    offers = REFERENCE_DECISION["offers"]
    table = client.post("/v1/offer-tables", json={"offers": offers}).json()
    assert table["csv"].startswith("offer,parallel file system,all flash\nwrite bandwidth,100 GB/s,400 GB/s\n")
    again = client.post("/v1/offer-tables", json={"text": table["csv"]}).json()
    assert (again["csv"], [offer["name"] for offer in again["offers"]]) == (
        table["csv"],
        [each["name"] for each in offers],
    )
    pytest.importorskip("openpyxl")
    of_sheet = read_offers(base64.b64decode(table["xlsx"]))
    assert write_offers(of_sheet, "csv").decode() == table["csv"]
    assert client.post("/v1/offer-tables", json={"xlsx": table["xlsx"]}).json()["csv"] == table["csv"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"text": "offer,disk\nwarranty,5y\nwrite bandwidth,1 GB/s"},
            "line 2, column 1 ('warranty') is no rate, capacity or price of an offer",
        ),
        ({"offers": [{"name": "a", "prices": [{"amount": 1}]}]}, "offers.0.prices.0.per is required"),
        (
            {"offers": [{"name": "a", "prices": [{"amount": True, "per": "offer"}]}]},
            '"offers.0.prices.0.amount must be a number, got true: give a number."',
        ),
        ({"xlsx": 1}, "xlsx must be base64 as text, got 1: encode the bytes of the file, as base64 FILE does."),
        ({}, "exactly one of text, xlsx, offers, found none"),
        ({"xlsx": base64.b64encode(b"PK\x03\x04 no zip").decode()}, "is no xlsx that can be read"),
    ],
)
def test_what_is_no_table_of_offers_is_refused_in_a_sentence(client: httpx.Client, body: object, said: str) -> None:
    if "no xlsx" in said:
        pytest.importorskip("openpyxl")
    refused = client.post("/v1/offer-tables", json=body)
    assert (refused.status_code, said in refused.text) == (422, True), refused.text


def test_an_amount_in_another_currency_is_refused_in_a_sentence(client: httpx.Client) -> None:
    offers = client.post("/v1/offer-tables", json={"text": REFERENCE_OFFER_TABLE["text"].replace("$1", "€1")}).json()
    refused = client.post("/v1/decisions", json=REFERENCE_DECISION | {"offers": offers["offers"]})
    assert (refused.status_code, "in the currency of the other prices, USD" in refused.text) == (422, True)
