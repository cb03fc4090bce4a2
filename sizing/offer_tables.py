"""Offers as a table for spreadsheets: a column for each offer, a row for each rate, capacity and price, and back.

Text is read as CSV with commas or semicolons, or with tabs, as a selection that is copied from a spreadsheet has them.
A table with an offer in each row is read too. Files of spreadsheets (xlsx) need the extra `xlsx`.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import dataclasses
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Base64Bytes, BaseModel, ConfigDict, Field, model_validator

from sizing.errors import InvalidInput, NotInstalled, Problem, require_one_of, shown
from sizing.field_paths import flattened
from sizing.printed_numbers import validate_as_printed, with_commas
from sizing.spreadsheets import TableWriter, guarded, unguarded
from sizing.strict_model import InputModel, StrictModel
from sizing.units import SECONDS_PER_DAY, SECONDS_PER_YEAR, FileContent

TABLE_KINDS = ("csv", "xlsx")
LABELS = {
    "name": "name",
    "offer": "name",
    "known storage system": "storage.preset",
    "write": "storage.profile.write_bytes_per_second",
    "read": "storage.profile.read_bytes_per_second",
    "usable capacity": "capacity_bytes",
    "power kilowatts": "power_kilowatts",
    "storage system": "storage.preset",
    "write bandwidth": "storage.profile.write_bytes_per_second",
    "read bandwidth": "storage.profile.read_bytes_per_second",
    "capacity": "capacity_bytes",
    "power": "power_kilowatts",
    "tiers are optional": "tiers_are_optional",
}
"""Names of rows beside `price per UNIT, PERIOD` and dotted paths in an offer; of several the last is written."""
_LABEL_OF_FIELD = {field: label for label, field in LABELS.items()} | {"power_kilowatts": "power (kW)"}
_FIELDS = ("storage", "tiers", *LABELS.values())
_PRICES, _RANGES = "prices", "ranges"
_PRICE = re.compile(
    r"price(?: per (?P<per>[^,;]+))?(?:, *(?:every |each )?(?P<every>[^;]+))?(?P<more>(?:;[^;]+)*)", re.IGNORECASE
)
_RANGE = re.compile(r"range of (?P<field>[^, ]+), (?P<end>\w+)", re.IGNORECASE)
_TIER = re.compile(r"tier (?P<number>[1-9]\d?): (?P<figure>.+)", re.IGNORECASE)
_TIER_PATH = re.compile(r"tiers\.(?P<number>\d+)\.(?P<path>.+)")
_WITH_UNIT = re.compile(r"(?P<label>.*\S)\s*[(\[](?P<unit>[^)\]]+)[)\]]")
_UNITS = {
    "_bytes_per_second": (("TB/s", 1e12), ("GB/s", 1e9), ("B/s", 1)),
    "_bytes": (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MiB", 2**20), ("B", 1)),
    "_seconds": (("years", SECONDS_PER_YEAR), ("d", SECONDS_PER_DAY), ("min", 60), ("s", 1)),
}
"""Units in which numbers are written, by the unit that ends the field's name, the largest first."""
_MAX_NUMBER = 1e30
_MAX_DOTS = 10
"""Blocks within blocks of an offer are fewer."""
_NUMBER = re.compile(r"[\d.,]*\d")
_POINT_BEFORE_THREE_DIGITS = re.compile(r"(?:[^\w.,]|[A-Z]{3})?\s*([1-9]\d{0,2})\.(\d{3})[^\d.,]*")
"""A number of thousands or with three decimals, beside a unit or a currency."""
_STORAGE = re.compile(r"(?P<block>(tiers\.\d+\.)?storage)\.(?P<kind>preset|profile|calibration)(\..*)?")
"""Paths in an offer of which each block has one kind."""
_OTHER_END = {"low": "high", "high": "low"}
_MAX_PROBLEMS = 10
"""Sentences that are still read; the others come when these are mended."""
_MAX_CELLS = 20_000
"""Cells of 20 offers with 1,000 rows: more is another table."""
_MAX_UNPACKED_BYTES = 5_000_000
"""Of a file that unpacks, so that a small one cannot fill memory."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Characters that XML does not hold."""
_ZIP = b"PK\x03\x04"
_REMEDY = (
    "rows may be storage system, write bandwidth, read bandwidth, usable capacity, power (kW), and of prices such as "
    "price per offer, once, or price per terabyte, month; leave others out"
)


class PriceDocument(InputModel):
    """A price as its offer has it, with further fields that the decision checks."""

    model_config = ConfigDict(extra="allow")

    amount: float | str = Field(description="Money for each one, as a number or as it is printed.")
    per: str = Field(description="Unit that it is paid for, such as terabyte.")
    every: str | None = Field(None, description="Period after which it is paid again, or once. Default: paid by use.")


class OfferDocument(InputModel):
    """An offer as a decision takes it, with further fields that the decision checks."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(description="What the decision calls it.")
    prices: list[PriceDocument] = Field(default_factory=list, description="What it costs. Default: nothing is known.")
    ranges: dict[str, dict[str, float | str]] = Field(
        default_factory=dict, description="Inputs that are not certain, by dotted path. Default: none."
    )


class OfferTableRequest(InputModel):
    """Offers, or a table of a spreadsheet that holds some."""

    text: Annotated[str, Field(max_length=1_000_000)] | None = Field(
        None,
        description="Table as CSV, or cells as they are copied from a spreadsheet. Give one of text, xlsx, offers.",
    )
    xlsx: Annotated[FileContent, Field(max_length=1_000_000)] | None = Field(
        None, description="File of a spreadsheet in base64; its first sheet counts. Give one of text, xlsx, offers."
    )
    offers: Annotated[list[OfferDocument], Field(max_length=1_000)] | None = Field(
        None, description="Offers to write as a table. Give one of text, xlsx, offers."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        require_one_of(self, ("text", "xlsx", "offers"))
        return self


class OfferTable(StrictModel):
    """Offers in three forms: as a decision takes them, as CSV, and as a file of a spreadsheet."""

    offers: list[OfferDocument] = Field(description="What a decision takes as offers; of a table, values are text.")
    csv: str = Field(description="A column for each offer and a row for each rate and price, separated by commas.")
    xlsx: Base64Bytes | None = Field(
        None, description="File of a spreadsheet in base64. Null where the server makes none."
    )


class TableLine(NamedTuple):
    """Texts of the cells of a row, and the number of the line in which it begins, from 1 on."""

    number: int
    texts: list[str]


class SourceTable(NamedTuple):
    """Rows of a table as it stands in a file, and the names of the file's sheets; a text has none."""

    lines: list[TableLine]
    sheets: Sequence[str] = ()


class Cell(NamedTuple):
    """Text of a cell, and its place in the file for a reader."""

    text: str
    place: str


REFERENCE_OFFER_TABLE = {
    "text": "offer\tdisk\tflash\nwrite bandwidth\t40 GB/s\t150 GB/s\nprice per offer, once\t$450,000\t$1,500,000\n"
}
"""Cells as they are copied from a spreadsheet."""


def answer_offer_table(request: OfferTableRequest, *, model: type[BaseModel] | None = None) -> OfferTable:
    """Read a table, or take offers, and write both forms.

    Args: `model` of an offer, whose rules the cells must keep; by default none.
    Raises InvalidInput where a row or a cell has no meaning, or a cell breaks a rule.
    """
    if request.offers is not None:
        offers = [offer.model_dump(exclude_unset=True) for offer in request.offers]
    else:
        offers = read_offers(request.xlsx or (request.text or "").encode(), model=model)
    document: dict[str, Any] = {"offers": offers, "csv": write_offers(offers, "csv").decode()}
    with contextlib.suppress(NotInstalled):
        document["xlsx"] = base64.b64encode(write_offers(offers, "xlsx"))
    return OfferTable.model_validate(document)


def read_offers(content: bytes, *, model: type[BaseModel] | None = None) -> list[dict[str, Any]]:
    r"""Read the offers of a table, as documents whose values are still text.

    Args: `model` of an offer, whose rules the cells must keep; by default none.
    Raises InvalidInput where a row or a cell has no meaning, and NotInstalled for an xlsx without the extra.

    >>> read_offers(b"offer;disk\nwrite bandwidth (GB/s);40\ncapacity;1 PB")
    [{'name': 'disk', 'storage': {'profile': {'write_bytes_per_second': '40 GB/s'}}, 'capacity_bytes': '1 PB'}]
    """
    source = _read_xlsx(content) if content.startswith(_ZIP) else read_text_table(content)
    lines = [line for line in source.lines if any(line.texts)]
    width = max((len(line.texts) for line in lines), default=0)
    if len(lines) * width > _MAX_CELLS:
        raise _refused("table", f"has more than {_MAX_CELLS:,} cells", None, "keep one row for each rate and price")
    rows = [
        [
            Cell(text, _place_text(line.number, column, is_sheet=bool(source.sheets)))
            for column, text in enumerate([*line.texts, *[""] * (width - len(line.texts))], start=1)
        ]
        for line in lines
    ]
    along = "row"
    if not any(_is_label(row[0].text) for row in rows[1:]):
        rows, along = [list(column) for column in zip(*rows, strict=True)], "column"
    if not any(_is_label(row[0].text) for row in rows[1:]):
        rule = "has no row and no column of rates or prices"
        remedy = _REMEDY
        if len(source.sheets) > 1:
            remedy = (
                f"move the sheet of the offers before {shown(source.sheets[0])}, as the first alone is read; {_REMEDY}"
            )
        raise _refused("table", rule, None, remedy)
    offers = read_labelled_rows(rows, along, model=model)
    if not offers:
        raise _refused("table", "has no offer", None, "write a name and figures beside its labels")
    return offers


def read_labelled_rows(
    rows: Sequence[Sequence[Cell]], along: str, *, model: type[BaseModel] | None = None
) -> list[dict[str, Any]]:
    """Read the offers of rows that begin with labels; `along` is what these are in the table, row or column.

    Raises InvalidInput with the first problems of all cells.
    """
    names, *figures = rows
    problems: list[Problem] = []
    for label, *cells in figures:
        given = [cell for cell in cells if cell.text]
        if given and _path_of(label.text) == "name":
            rule = f"names the offers, but is not the first {along}"
            raise _refused(f"{label.place} ({shown(label.text)})", rule, None, f"remove the {along}s before it")
        if given and not label.text:
            rule, remedy = f"stands in a {along} whose first cell is empty", f"write into {label.place} what it is"
            problems += (Problem(cell.place, rule, shown(cell.text), f"{remedy}, or empty the cell") for cell in given)
        elif given and not _is_label(label.text):
            rule = "is no rate, capacity or price of an offer"
            problems.append(Problem(f"{label.place} ({shown(label.text)})", rule, "", _REMEDY))
    labelled = [row for row in figures if _is_label(row[0].text)]
    offers = []
    places: dict[str, str] = {}
    for column, name in enumerate(names[1:], start=1):
        own = [(row[0], row[column]) for row in labelled if row[column].text]
        if not name.text and own:
            rule = f"names no offer, yet {own[0][1].place} has a figure of it"
            problems.append(Problem(name.place, rule, "", "write its name, or empty its other cells"))
        elif name.text in places:
            rule = f"is the name of {places[name.text]} too"
            problems.append(Problem(name.place, rule, shown(name.text), "name each offer differently"))
        elif name.text:
            places[name.text] = name.place
            contradictions = list(list_contradictions(name, own))
            by_path: dict[str, tuple[Cell, Cell]] = {}
            offers.append(_read_offer(name, own, by_path))
            problems += contradictions or (list_broken_rules(offers[-1], name, by_path, model) if model else ())
    if problems:
        raise InvalidInput(problems[:_MAX_PROBLEMS])
    return offers


def write_offers(offers: Sequence[Mapping[str, Any]], kind: str) -> bytes:
    """Write offers, documents as a request has them, as a table of a kind of `TABLE_KINDS`."""
    columns = [dict(label_values(offer)) for offer in offers]
    labels = dict.fromkeys(label for column in columns for label in column)
    rows = [["offer", *(offer["name"] for offer in offers)]]
    rows += [[label[0], *(column.get(label, "") for column in columns)] for label in labels]
    if kind == "xlsx":
        return _write_xlsx(rows)
    text = io.StringIO()
    TableWriter(text).rows(rows)
    return text.getvalue().encode()


def label_values(offer: Mapping[str, Any]) -> Iterator[tuple[tuple[str, int], Any]]:
    """Yield label and value of each row, the label with its number among equal ones."""
    times: Counter[str] = Counter()
    for path, value in flattened(
        {name: block for name, block in offer.items() if name not in {"name", _PRICES, _RANGES}},
        opens=lambda *_: True,
    ):
        if value is not None:
            yield (label_of(path), 0), with_unit(path, value)
    for field, ends in (offer.get(_RANGES) or {}).items():
        for end, value in ends.items():
            yield (f"range of {field}, {end}", 0), with_unit(field, value)
    for price in offer.get(_PRICES) or ():
        every = f", {price['every']}" if price.get("every") else ""
        beside = {name: value for name, value in price.items() if name not in {"amount", "per", "every"}}
        more = "".join(f"; {name} {with_unit(name, value)}" for name, value in beside.items() if value is not None)
        label = f"price per {price['per']}{every}{more}"
        yield (label, times[label]), with_unit("amount", price["amount"])
        times[label] += 1


def label_of(path: str) -> str:
    """Label the row of a dotted path in an offer, by words where these are read as that path again.

    >>> label_of("tiers.0.storage.profile.write_bytes_per_second"), label_of("tiers.1.loss_domain")
    ('Tier 1: write bandwidth', 'Tier 2: loss domain')
    >>> label_of("capacity_bytes"), label_of("tiers.0.storage.profile.node_write_bytes_per_second")
    ('capacity', 'tiers.0.storage.profile.node_write_bytes_per_second')
    """
    if (tier := _TIER_PATH.fullmatch(path)) is None:
        return _LABEL_OF_FIELD.get(path, path)
    words = _LABEL_OF_FIELD.get(tier["path"], tier["path"].removesuffix("_seconds").replace("_", " "))
    label = f"Tier {int(tier['number']) + 1}: {words}"
    return label if "." not in words and _path_of(label) == path else path


def with_unit(field: str, value: Any) -> Any:
    """Write a number with the unit that ends its field's name, in the largest one in which it has few digits.

    >>> with_unit("capacity_bytes", 500e12), with_unit("life_seconds", 157788000.0), with_unit("power_kilowatts", 25)
    ('500 TB', '5 years', 25)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    units = next((units for ending, units in _UNITS.items() if field.endswith(ending)), None)
    if units is None or isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > _MAX_NUMBER:
        return value
    for unit, size in units:
        number = f"{value / size:.6g}"
        if "e" not in number and float(number) >= 1 and float(number) * size == value:
            return f"{number} {unit}"
    return f"{value} {units[-1][0]}"


def read_text_table(content: bytes) -> SourceTable:
    """Split a text into cells, at tabs where the first line has one, else at commas or semicolons.

    Spreadsheets write semicolons where a comma stands before decimals. Raises InvalidInput where a point may then
    separate thousands or not.
    """
    try:
        text = content.decode("utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
    except UnicodeDecodeError:
        raise _refused("table", "is neither text nor xlsx", None, "save it as CSV in UTF-8, or as xlsx") from None
    lines = text.splitlines(keepends=True)
    first = next((line for line in lines if line.strip()), "")
    delimiters = ["\t"] if "\t" in first else [",", ";"]
    tables: dict[str, list[TableLine]] = {}
    for delimiter in delimiters:
        with contextlib.suppress(csv.Error):  # text with quotes is none of one delimiter, and of the other it is
            rows = csv.reader(lines, delimiter=delimiter, strict=True)
            table, begin = [], 1
            for row in rows:
                table.append(TableLine(begin, [unguarded(cell.strip()) for cell in row]))
                begin = rows.line_num + 1
            tables[delimiter] = table
    if not tables:
        raise _refused("table", "is no CSV", None, "quote whole cells that hold quotes or separators")
    chosen = max(tables, key=lambda each: len(next((line.texts for line in tables[each] if line.texts), [])))
    problems = [
        Problem(
            _place_text(line.number, column, is_sheet=False),
            "has a point that may separate thousands, as semicolons separate the cells",
            shown(text),
            f"write {found[1]}{found[2]}, or {found[1]}.{found[2]}0 where a point stands before decimals",
        )
        for line in tables[chosen]
        for column, text in enumerate(line.texts, start=1)
        if chosen == ";" and (found := _POINT_BEFORE_THREE_DIGITS.fullmatch(text))
    ]
    if problems:
        raise InvalidInput(problems[:_MAX_PROBLEMS])
    return SourceTable(tables[chosen])


def _place_text(line: int, column: int, *, is_sheet: bool) -> str:
    """Say where a cell stands, both numbers from 1 on.

    >>> _place_text(5, 28, is_sheet=False)
    'line 5, column 28'
    """
    return f"{_load_openpyxl().utils.get_column_letter(column)}{line}" if is_sheet else f"line {line}, column {column}"


def _split_unit(label: str) -> tuple[str, str]:
    """Split a label from the unit in parentheses after it, which is empty where it has none."""
    found = _WITH_UNIT.fullmatch(label.strip())
    return (found["label"], found["unit"]) if found else (label.strip(), "")


def _path_of(label: str) -> str | None:
    """Return the dotted path in an offer of a row's label without its unit; None where no figure has it."""
    label = label.lower()
    if (tier := _TIER.fullmatch(label)) is not None:
        figure = tier["figure"]
        path = LABELS.get(figure) or {"interval": "interval_seconds"}.get(figure, figure.replace(" ", "_"))
        return f"tiers.{int(tier['number']) - 1}.{path}"
    is_path = label.split(".", maxsplit=1)[0] in _FIELDS and label.count(".") <= _MAX_DOTS
    return LABELS.get(label, label if is_path else None)


def _is_label(text: str) -> bool:
    label, _ = _split_unit(text)
    return any(pattern.fullmatch(label) for pattern in (_PRICE, _RANGE)) or _path_of(label) is not None


def _read_offer(
    name: Cell, figures: Sequence[tuple[Cell, Cell]], cells: dict[str, tuple[Cell, Cell]]
) -> dict[str, Any]:
    """Make the document of an offer from the labels and values of its column.

    Notes in `cells`, by path in the document, the label of each value and the cell in which it stands: what a price is
    paid for stands in its label.
    """
    flat: dict[str, str] = {"name": name.text}
    prices: list[dict[str, str]] = []
    ranges: dict[str, dict[str, str]] = {}
    for label, cell in figures:
        plain, unit = _split_unit(label.text)
        path = _path_of(plain)
        has_unit = unit and path != "power_kilowatts" and _NUMBER.fullmatch(with_commas(cell.text))
        value = f"{cell.text} {unit}" if has_unit else cell.text
        if (price := _PRICE.fullmatch(plain)) is not None:
            more = dict(each.strip().partition(" ")[::2] for each in price["more"].split(";") if each.strip())
            every = price["every"] or ("" if price["per"] else "once")
            paid = {"per": price["per"] or "offer"} | ({"every": every} if every else {})
            spelled = {field: text.strip().lower().replace(" ", "-") for field, text in paid.items()}
            cells.update({f"{_PRICES}.{len(prices)}.{field}": (label, label) for field in (*spelled, *more)})
            cells[f"{_PRICES}.{len(prices)}.amount"] = label, cell
            prices.append({**spelled, **more, "amount": value})
        elif (end := _RANGE.fullmatch(plain)) is not None:
            cells[f"{_RANGES}.{end['field']}.{end['end'].lower()}"] = label, cell
            ranges.setdefault(end["field"], {})[end["end"].lower()] = value
        elif path is not None:
            cells[path] = label, cell
            flat[path] = value
    lists = {_PRICES: prices, _RANGES: ranges}
    return {**_unflatten(flat), **{name: given for name, given in lists.items() if given}}


def list_contradictions(name: Cell, figures: Sequence[tuple[Cell, Cell]]) -> Iterator[Problem]:
    """List what cannot stand together in the column of an offer: a figure twice, two kinds of storage, half a range."""
    first: dict[str, Cell] = {}
    kinds: dict[str, tuple[str, Cell]] = {}
    labels = {_split_unit(label.text)[0].lower() for label, _ in figures}
    paths = [path for label in labels if (path := _path_of(label))]
    for label, cell in figures:
        plain = _split_unit(label.text)[0].lower()
        path = _path_of(plain) or ""
        rule, remedy = "", "keep one of both"
        if (storage := _STORAGE.fullmatch(path)) is not None:
            kind, beside = kinds.setdefault(storage["block"], (storage["kind"], cell))
            rule = "" if kind == storage["kind"] else f"stands beside another storage, in {beside.place}"
        if path and any(other.startswith(f"{path}.") for other in paths):
            rule, remedy = "stands beside rows of its own fields", "empty this cell, or those"
        if (end := _RANGE.fullmatch(plain)) is not None and end["end"] in _OTHER_END:
            other = f"range of {end['field']}, {_OTHER_END[end['end']]}"
            rule, remedy = ("", remedy) if other in labels else ("has no other end", f"add a row {shown(other)}")
        if (path or end) and first.setdefault(path or plain, cell) is not cell:
            rule, remedy = f"gives what {first[path or plain].place} gives", "keep one of both"
        if rule:
            field = f"{cell.place} ({shown(label.text)} of {shown(name.text)})"
            yield Problem(field, rule, shown(cell.text), remedy)


def list_broken_rules(
    offer: dict[str, Any], name: Cell, cells: Mapping[str, tuple[Cell, Cell]], model: type[BaseModel]
) -> Iterator[Problem]:
    """List the cells that break a rule of an offer.

    What an offer or a price lacks, and rules between several cells, are not listed: the decision names them.
    """
    try:
        validate_as_printed(model, offer)
    except InvalidInput as error:
        for problem in error.problems:
            path = next((each for each in cells if f"{problem.field}.".startswith(f"{each}.")), None)
            if path is not None:
                label, cell = cells[path]
                yield dataclasses.replace(problem, field=f"{cell.place} ({shown(label.text)} of {shown(name.text)})")
            elif problem.field == "name":
                yield dataclasses.replace(problem, field=name.place)


def _unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Make the document of values by dotted path; blocks whose names are numbers are lists.

    >>> _unflatten({"tiers.0.kind": "local-nvme", "tiers.1.kind": "host-memory"})
    {'tiers': [{'kind': 'local-nvme'}, {'kind': 'host-memory'}]}
    """
    names = dict.fromkeys(path.split(".")[0] for path in flat)
    document: dict[str, Any] = {}
    for name in names:
        inner = {path.partition(".")[2]: value for path, value in flat.items() if path.split(".")[0] == name}
        block = inner[""] if "" in inner else _unflatten(inner)
        is_list = isinstance(block, dict) and all(key.isdecimal() for key in block)
        document[name] = list(block.values()) if is_list else block
    return document


def _read_xlsx(content: bytes) -> SourceTable:
    """Read the first sheet of a file of a spreadsheet, formulas by the values that were saved."""
    openpyxl = _load_openpyxl()
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            if sum(each.file_size for each in packed.infolist()) > _MAX_UNPACKED_BYTES:
                raise _refused("table", "unpacks to more than 5 MB", None, "keep one sheet with the offers")
        values, formulas = (
            openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=data_only).worksheets
            for data_only in (True, False)
        )
        sheets = [sheet.title for sheet in values]
        rows = list(values[0].iter_rows(max_row=1_000, max_col=200))
        typed = list(formulas[0].iter_rows(values_only=True, max_row=1_000, max_col=200))
    except (zipfile.BadZipFile, KeyError, ValueError, IndexError, OSError) as error:
        raise _refused("table", f"is no xlsx that can be read ({error})", None, "save it again, or as CSV") from None
    without_value = [
        Problem(
            _place_text(line, column, is_sheet=True),
            "is a formula without a saved value",
            shown(getattr(formula, "text", formula)),  # that of an array is an object
            "open and save it in the spreadsheet, or type the value",
        )
        for line, cells in enumerate(zip(rows, typed, strict=True), start=1)
        for column, (cell, formula) in enumerate(zip(*cells, strict=True), start=1)
        if formula is not None and cell.value is None and cell.data_type != "str"  # whose saved value is an empty text
    ]
    if without_value:
        raise InvalidInput(without_value)
    texts = [["" if cell.value is None else unguarded(str(cell.value).strip()) for cell in row] for row in rows]
    return SourceTable([TableLine(number, row) for number, row in enumerate(texts, start=1)], sheets)


def _write_xlsx(rows: Sequence[Sequence[Any]]) -> bytes:
    book = _load_openpyxl().Workbook()
    sheet = book.active
    sheet.title = "Offers"
    for row in rows:
        cells = [str(cell) if not isinstance(cell, int | float) or abs(cell) > _MAX_NUMBER else cell for cell in row]
        sheet.append([_CONTROL.sub("", guarded(cell)) if isinstance(cell, str) else cell for cell in cells])
    for column, letter in enumerate(sheet.iter_cols(max_row=1), start=1):
        sheet.column_dimensions[letter[0].column_letter].width = 40 if column == 1 else 24
    sheet.freeze_panes = "B2"
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def _load_openpyxl() -> Any:
    try:
        import openpyxl  # noqa: PLC0415 - only tables of spreadsheets need it
    except ModuleNotFoundError:
        remedy = "pip install 'checkpoint-sizing[xlsx]', or save the table as CSV"
        raise NotInstalled.of(
            "the table", "cannot be read or written as xlsx without openpyxl", value=None, remedy=remedy
        ) from None
    return openpyxl


def _refused(field: str, rule: str, value: object, remedy: str) -> InvalidInput:
    return InvalidInput.of(field, rule, value=value, remedy=remedy)
