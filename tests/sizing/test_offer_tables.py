"""Offers go into a table of a spreadsheet and come back as they were; a table that is pasted is read as well."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from sizing.errors import InvalidInput
from sizing.offer_tables import TABLE_KINDS, read_offers, write_offers
from sizing.questions.decide.request import REFERENCE_DECISION, DecisionRequest
from sizing.questions.registry import DECIDE

PURCHASES = Path(__file__).parents[2] / "docs" / "purchases"
DOCUMENTS = [yaml.safe_load(path.read_text()) for path in sorted(PURCHASES.glob("*.yaml"))]
AS_ROWS = (
    "Offer\tWrite bandwidth (GB/s)\tRead bandwidth (GB/s)\tCapacity\tPower (kW)\tprice per offer, once; life_seconds 5y\n"
    "disk\t40\t60\t1 PB\t25\t$450,000\n"
    "flash\t150\t300\t500 TB\t\t1,500,000\n"
)


def require_openpyxl(kind: str) -> None:
    if kind == "xlsx":
        pytest.importorskip("openpyxl")


def offers_of(document: dict[str, Any]) -> Any:
    return DecisionRequest.model_validate(document).offers


@pytest.mark.parametrize("kind", TABLE_KINDS)
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each["offers"][0]["name"])
def test_offers_come_back_as_they_were(document: dict[str, Any], kind: str) -> None:
    require_openpyxl(kind)
    typed = read_offers(write_offers(document["offers"], kind))
    assert offers_of(document | {"offers": typed}) == offers_of(document)
    plain = [offer.model_dump(mode="json", exclude_unset=True) for offer in offers_of(document)]
    assert offers_of(document | {"offers": read_offers(write_offers(plain, kind))}) == offers_of(document)


def test_the_table_of_the_guide_is_read() -> None:
    guide = (PURCHASES.parent / "explore.md").read_text()
    (table,) = re.findall(r"^```\n(offer .*?)```", guide, re.DOTALL | re.MULTILINE)
    disk, flash = offers_of(REFERENCE_DECISION | {"offers": read_offers(table.encode())})
    assert (disk.name, disk.capacity_bytes, flash.capacity_bytes) == ("disk", 10**15, 500 * 10**12)
    terabyte = ("terabyte", "month", 20)
    assert [(price.per, price.every, price.amount) for price in disk.prices] == [("offer", "once", 450_000), terabyte]
    assert [price.amount for price in flash.prices] == [1_500_000]


def test_tiers_are_written_as_the_page_calls_them_and_read_as_they_were_written_before() -> None:
    figures = {
        "kind": "local-nvme",
        "interval_seconds": "10 min",
        "capacity_bytes": "3 TB",
        "storage": {"profile": {"write_bytes_per_second": "5 GB/s", "read_bytes_per_second": "10 GB/s"}},
    }
    table = write_offers([{"name": "disk", "tiers": [figures]}], "csv").decode()
    assert [row.split(",")[0] for row in table.splitlines()] == [
        "offer",
        *(f"Tier 1: {each}" for each in ("kind", "interval", "capacity", "write bandwidth", "read bandwidth")),
    ]
    assert read_offers(table.encode()) == [{"name": "disk", "tiers": [figures]}]
    before = b"offer,disk\ntiers.0.kind,local-nvme\ntiers.0.storage.profile.write_bytes_per_second,5 GB/s\n"
    rates = {"profile": {"write_bytes_per_second": "5 GB/s"}}
    assert read_offers(before) == [{"name": "disk", "tiers": [{"kind": "local-nvme", "storage": rates}]}]


@pytest.mark.parametrize(
    "content",
    [
        AS_ROWS.encode(),
        AS_ROWS.encode("utf-16"),
        b"\xef\xbb\xbf" + AS_ROWS.encode(),
    ],
    ids=["tabs", "utf-16", "byte order mark"],
)
def test_a_pasted_table_with_an_offer_in_each_row_is_read(content: bytes) -> None:
    disk, flash = read_offers(content)
    assert disk == {
        "name": "disk",
        "storage": {"profile": {"write_bytes_per_second": "40 GB/s", "read_bytes_per_second": "60 GB/s"}},
        "capacity_bytes": "1 PB",
        "power_kilowatts": "25",
        "prices": [{"per": "offer", "every": "once", "life_seconds": "5y", "amount": "$450,000"}],
    }
    assert "power_kilowatts" not in flash


@pytest.mark.parametrize(
    ("row", "read"),
    [
        ("Price per terabyte\t150", {"prices": [{"per": "terabyte", "amount": "150"}]}),
        ("PRICE PER Terabyte Read, Once\t9", {"prices": [{"per": "terabyte-read", "every": "once", "amount": "9"}]}),
        (
            "Price per terabyte, month (USD)\t15",
            {"prices": [{"per": "terabyte", "every": "month", "amount": "15 USD"}]},
        ),
        ("Price (USD)\t450,000", {"prices": [{"per": "offer", "every": "once", "amount": "450,000 USD"}]}),
        ("Write (GB/s)\t40", {"storage": {"profile": {"write_bytes_per_second": "40 GB/s"}}}),
        ("Usable capacity [PB]\t1", {"capacity_bytes": "1 PB"}),
        ("Capacity (TB)\t1\u202f500", {"capacity_bytes": "1\u202f500 TB"}),
        ("Known storage system\tdisk-array", {"storage": {"preset": "disk-array"}}),
        ("Tier 1: interval\t10min", {"tiers": [{"interval_seconds": "10min"}]}),
        ("Tiers.0.Kind\tlocal-nvme", {"tiers": [{"kind": "local-nvme"}]}),
    ],
)
def test_the_labels_of_the_page_are_read_in_any_case_and_with_a_unit(row: str, read: dict[str, Any]) -> None:
    assert read_offers(f"Name\tdisk\n{row}\n".encode()) == [{"name": "disk", **read}]


def test_a_price_whose_label_names_the_currency_is_decided_in_it() -> None:
    rows = "offer\tdisk\nWrite (GB/s)\t40\nRead (GB/s)\t60\nPrice (EUR)\t450,000\n"
    offers = read_offers(rows.encode())
    report = DECIDE.answer(REFERENCE_DECISION | {"offers": offers, "currency": "EUR"})
    assert [each.amount for each in report.offers[0].ledger[:1]] == [450_000]
    with pytest.raises(InvalidInput, match="in the currency of the other prices, USD"):
        DECIDE.answer(REFERENCE_DECISION | {"offers": offers})


def test_semicolons_separate_where_a_label_holds_commas() -> None:
    (disk,) = read_offers(b'offer;disk\nwrite bandwidth;40 GB/s\n"price per terabyte, month";20\n')
    assert disk["prices"] == [{"per": "terabyte", "every": "month", "amount": "20"}]


def test_a_decimal_comma_is_refused_with_how_to_write_it() -> None:
    offers = read_offers(b"offer;disk\nwrite bandwidth;7,5 GB/s\nread bandwidth;60 GB/s\nprice per offer, once;20,5\n")
    with pytest.raises(InvalidInput) as refused:
        DECIDE.answer(REFERENCE_DECISION | {"offers": offers})
    remedies = {problem.remedy for problem in refused.value.problems}
    assert remedies == {"write a point before decimals: 7.5", "write a point before decimals: 20.5"}


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("450.000", "write 450000, or 450.0000 where"),
        ("€ 1.500", "write 1500, or 1.5000 where"),
        ("1.500 EUR", "write 1500, or 1.5000 where"),
    ],
)
def test_a_point_that_may_separate_thousands_is_refused_beside_semicolons(text: str, remedy: str) -> None:
    table = "offer;disk\nwrite bandwidth;40 GB/s\ncapacity;500.000 GB\nprice per offer, once;{}\n"
    with pytest.raises(InvalidInput) as refused:
        read_offers(table.format(text).encode())
    capacity, price = refused.value.problems
    assert (capacity.field, price.field) == ("line 3, column 2", "line 4, column 2")
    assert capacity.remedy.startswith("write 500000, or 500.0000 where")
    assert price.remedy.startswith(remedy)
    read = read_offers(table.replace("500.000", "500.0000").format("0.250").encode())
    assert (read[0]["capacity_bytes"], read[0]["prices"][0]["amount"]) == ("500.0000 GB", "0.250")
    assert read_offers(f"offer,disk\ncapacity,500.000 GB\nprice,{text}\n".encode())


def test_prices_of_offers_may_be_typed_as_they_are_printed() -> None:
    asked = REFERENCE_DECISION | {"offers": read_offers(AS_ROWS.encode())}
    report = DECIDE.answer(asked)
    assert report.refused_offers == []
    bought = {offer.name: offer.ledger[0].amount for offer in report.offers}
    assert bought == {"disk": 450_000, "flash": 1_500_000}
    euros = AS_ROWS.replace("1,500,000", "€1,500,000")
    with pytest.raises(InvalidInput, match="in the currency of the other prices, USD"):
        DECIDE.answer(REFERENCE_DECISION | {"offers": read_offers(euros.encode())})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("offer,disk\nwrite bandwidth,40 GB/s\nwarranty,5y\n", "'warranty'. is no rate, capacity or price of an offer"),
        (
            "offer,disk\ncapacity,1 PB\ncapacity_bytes,2 PB\n",
            "line 3, column 2 .'capacity_bytes' of 'disk'. gives what line 2, column 2 gives, got '2 PB': keep one of",
        ),
        (
            "offer,disk\n\ncapacity,1 PB\nNotes,fast\n",
            "line 4, column 1 .'Notes'. is no rate.*: rows may be storage system, write bandwidth",
        ),
        ("offer,disk\ncapacity,1 PB\nPrices,5\n", "'Prices'. is no rate, capacity or price of an offer"),
        ("offer,disk\ncapacity,1 PB\ncapacity (TB) net,5\n", "net'. is no rate, capacity or price of an offer"),
        (f"offer,disk\ncapacity,1 PB\nstorage{'.a' * 9000},1\n", "is no rate, capacity or price of an offer"),
        ("offer\ncapacity\n", "table has no offer: write a name and figures beside its labels"),
        ("a,b\nc,d\n", "no row and no column of rates or prices"),
        ("", "no row and no column of rates or prices"),
        ("offer|disk\nwrite bandwidth|40 GB/s\n", "no row and no column of rates or prices"),
        ("offer,disk\nwrite bandwidth\xe9,1", "is neither text nor xlsx"),
        (
            "offer,disk\ncapacity,1 PB\n,,,x\n",
            "line 3, column 4 stands in a row whose first cell is empty, got 'x': write into line 3, column 1 what it is",
        ),
        (
            'Offers,,\n"of, May",,\noffer,disk,flash\ncapacity,1 PB,1 PB\n',
            "^line 3, column 1 .'offer'. names the offers, but is not the first row: remove the rows before it.$",
        ),
        (
            "id\toffer\tcapacity\n1\tdisk\t1 PB\n",
            "^line 1, column 2 .'offer'. names the offers, but is not the first column: remove the columns before it.$",
        ),
        (
            "offer,disk,flash,disk\ncapacity,1 PB,1 PB,2 PB\n",
            "line 1, column 4 is the name of line 1, column 2 too, got 'disk': name each offer differently",
        ),
        (
            "offer,disk,\ncapacity,1 PB,2 PB\n",
            "line 1, column 3 names no offer, yet line 2, column 3 has a figure of it: write",
        ),
        (
            'offer,"disk\narray"\ncapacity,1 PB\nstorage system,disk-array\nwrite bandwidth (GB/s),40\n',
            "line 5, column 2 .'write bandwidth .GB/s.' of 'disk.*. stands beside another storage, in line 4, column 2, "
            "got '40': keep one of both",
        ),
        (
            'offer,disk\ncapacity,1 PB\n"range of reliability.mtbf_seconds, low",3h\n',
            "line 3, column 2 .'range of reliability.mtbf_seconds, low' of 'disk'. has no other end, got '3h': "
            "add a row 'range of reliability.mtbf_seconds, high'",
        ),
    ],
)
def test_a_cell_of_no_meaning_is_refused_where_it_stands(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_offers(text.encode("latin-1"))


def test_what_is_wrong_in_several_cells_of_a_sheet_is_said_at_once() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_offers(sheet_with({"F20": "x", "A9": "total", "B9": 5, "C1": "parallel file system"}))
    places = [problem.sentence.split(" ")[0] for problem in refused.value.problems]
    assert places == ["A9", "F20", "C1"]


def test_a_sheet_before_that_of_the_offers_is_named() -> None:
    with pytest.raises(
        InvalidInput, match="move the sheet of the offers before 'Notes', as the first alone is read; rows may be"
    ):
        read_offers(sheet_with({}, first_sheet="Notes"))


@pytest.mark.parametrize("kind", TABLE_KINDS)
def test_no_name_runs_as_a_formula_and_it_comes_back(kind: str) -> None:
    require_openpyxl(kind)
    offer = REFERENCE_DECISION["offers"][0] | {"name": '=HYPERLINK("http://example.org")'}
    table = write_offers([offer], kind)
    assert [each["name"] for each in read_offers(table)] == [offer["name"]]
    if kind == "csv":
        assert "'=HYPERLINK" in table.decode()
    else:
        openpyxl = pytest.importorskip("openpyxl")
        assert openpyxl.load_workbook(io.BytesIO(table)).active["B1"].data_type == "s"


def test_a_file_that_unpacks_to_much_is_refused_before_it_is_unpacked() -> None:
    pytest.importorskip("openpyxl")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(30_000_000))
    with pytest.raises(InvalidInput, match="unpacks to more than 5 MB"):
        read_offers(packed.getvalue())


def sheet_with(cells: dict[str, object], *, first_sheet: str = "") -> bytes:
    """Write the offers of the reference as a sheet, with other cells, and perhaps with a sheet of that name before it."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(io.BytesIO(write_offers(REFERENCE_DECISION["offers"], "xlsx")))
    for place, value in cells.items():
        book.active[place] = value
    if first_sheet:
        book.create_sheet(first_sheet, 0)["A1"] = "Asked in May"
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def test_a_formula_without_its_value_is_refused_where_it_stands() -> None:
    said = (
        "C5 is a formula without a saved value, got '=10[*]500': open and save it in the spreadsheet, or type the value"
    )
    with pytest.raises(InvalidInput, match=said):
        read_offers(sheet_with({"C5": "=10*500"}))


def test_a_formula_whose_value_was_saved_counts_by_it_and_one_of_an_empty_text_as_empty() -> None:
    written = zipfile.ZipFile(io.BytesIO(sheet_with({"C4": "=10*40", "C5": "=10*500"})))
    saved = io.BytesIO()
    with zipfile.ZipFile(saved, "w") as archive:
        for name in written.namelist():
            content = written.read(name).decode()
            if name == "xl/worksheets/sheet1.xml":
                content = re.sub('<c r="C4"([^>]*)>(.*?)<v *(/>|></v>)', r'<c r="C4"\1>\2<v>400</v>', content)
                content = content.replace('<c r="C5"', '<c t="str" r="C5"')
            archive.writestr(name, content)
    prices = [offer["prices"] for offer in read_offers(saved.getvalue())]
    assert [[price["amount"] for price in each] for each in prices] == [["200", "5000"], ["400"]]
