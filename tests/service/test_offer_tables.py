"""Tables of offers over REST: cells that are pasted become offers that are decided, and offers become a table."""

from __future__ import annotations

import base64
import io

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


OFFERS = "offer\tdisk\tflash\nwrite bandwidth\t{}\t150 GB/s\nprice per {}\t{}\t$1,500,000\ncapacity\t{}\t1 PB\n"


@pytest.mark.parametrize(
    ("cells", "place", "said"),
    [
        (("n/a", "offer, once", "$1", "1 PB"), "line 2, column 2 ('write bandwidth' of 'disk')", ("'n/a'", "273 GB/s")),
        (("#REF!", "offer, once", "$1", "1 PB"), "line 2, column 2", ("'#REF!'", "is not a rate")),
        (("40", "offer, once", "$1", "1 PB"), "line 2, column 2", ("'40'", "without a unit", "40 GB/s")),
        (("1,5 GB/s", "offer, once", "$1", "1 PB"), "line 2, column 2", ("'1,5 GB/s'", "1.5")),
        (
            ("40 GB/s", "offer, once", "free", "1 PB"),
            "line 3, column 2 ('price per offer, once' of 'disk')",
            ("'free'",),
        ),
        (("40 GB/s", "offer, once", "-5", "1 PB"), "line 3, column 2", ("'-5'", "at least 0")),
        (("40 GB/s", "offer, once", "NaN", "1 PB"), "line 3, column 2", ("'NaN'", "finite")),
        (
            ("40 GB/s", "furlong, once", "$1", "1 PB"),
            "line 3, column 1 ('price per furlong, once' of 'disk')",
            ("terabyte",),
        ),
        (("40 GB/s", "offer, once", "$1", "lots"), "line 4, column 2 ('capacity' of 'disk')", ("'lots'", "13.8 TB")),
    ],
)
def test_a_cell_that_breaks_a_rule_is_refused_with_its_row_and_column(
    client: httpx.Client, cells: tuple[str, ...], place: str, said: tuple[str, ...]
) -> None:
    refused = client.post("/v1/offer-tables", json={"text": OFFERS.format(*cells)})
    assert refused.status_code == 422
    error = refused.json()["errors"][0]
    assert error["field"].startswith(place)
    assert error["remedy"]
    assert [part for part in said if part not in error["sentence"]] == []


def test_every_cell_of_a_sheet_that_breaks_a_rule_is_named(client: httpx.Client) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [
        ["offer", "disk", "flash"],
        ["write bandwidth (GB/s)", "fast", 150],
        ["price per offer, once", True, -5],
    ]:
        book.active.append(row)
    content = io.BytesIO()
    book.save(content)
    refused = client.post("/v1/offer-tables", json={"xlsx": base64.b64encode(content.getvalue()).decode()})
    assert refused.status_code == 422
    places = [error["field"].partition(" ")[0] for error in refused.json()["errors"]]
    assert places == ["B2", "B3", "C3"]


def test_a_cell_beside_rows_of_its_fields_is_not_left_out(client: httpx.Client) -> None:
    text = "offer\tdisk\nstorage\tx\nwrite bandwidth\t1 GB/s\n"
    refused = client.post("/v1/offer-tables", json={"text": text})
    assert refused.json()["errors"][0]["sentence"].startswith(
        "line 2, column 2 ('storage' of 'disk') stands beside rows of its own fields, got 'x'"
    )


def test_what_an_offer_and_a_price_lack_is_left_to_the_decision(client: httpx.Client) -> None:
    """The page reads such offers, and asks for the period of each price and the other rates."""
    text = "Name\tdisk\tflash\nWrite (GB/s)\t40\t\nPrice per terabyte\t150\t250\nprice per nvme-drive, once\t9\t9\n"
    offers = client.post("/v1/offer-tables", json={"text": text}).json()["offers"]
    assert [offer["prices"][0] for offer in offers] == [
        {"per": "terabyte", "every": None, "amount": amount} for amount in ("150", "250")
    ]
    decided = client.post("/v1/decisions", json=REFERENCE_DECISION | {"offers": offers})
    assert "has a price per terabyte without a period" in decided.text


def test_an_amount_in_another_currency_is_refused_in_a_sentence(client: httpx.Client) -> None:
    offers = client.post("/v1/offer-tables", json={"text": REFERENCE_OFFER_TABLE["text"].replace("$1", "€1")}).json()
    refused = client.post("/v1/decisions", json=REFERENCE_DECISION | {"offers": offers["offers"]})
    assert (refused.status_code, "in the currency of the other prices, USD" in refused.text) == (422, True)
