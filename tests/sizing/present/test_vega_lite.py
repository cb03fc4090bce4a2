"""Every chart is valid Vega-Lite, names its axes and draws all that its rows hold."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema_rs
import pytest

from sizing.present.chart import SCHEMA, Spec
from sizing.present.rendering import render_svg
from tests.sizing.present.gallery import EXAMPLES, drawn

VIEWS = ("layer", "hconcat", "vconcat", "concat")

Rows = list[dict[str, Any]]


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_a_chart_is_valid_vega_lite(chart: Callable[..., Any]) -> None:
    for spec in drawn(chart):
        vega_lite().validate(spec)


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_a_chart_draws_the_fields_of_its_rows_and_all_of_them(chart: Callable[..., Any]) -> None:
    used: dict[int, set[str]] = {}
    held: dict[int, set[str]] = {}
    for rows, encoding in views_of(chart):
        assert rows
        assert all(set(row) == set(rows[0]) for row in rows)
        held[id(rows)] = set(rows[0])
        used.setdefault(id(rows), set()).update(one["field"] for _, one in channels(encoding))
    assert used == held


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_every_axis_and_legend_is_named_in_the_picture(chart: Callable[..., Any]) -> None:
    picture = " ".join(text for spec in drawn(chart) for text in ET.fromstring(render_svg(spec)).itertext())  # noqa: S314 - our own
    titles: dict[tuple[str, str], set[str]] = {}
    for _, encoding in views_of(chart):
        for channel, one in channels(encoding):
            title = one.get("title") or ""
            if channel in ("x", "y") and one["type"] == "quantitative":
                titles.setdefault((channel, one["field"]), set()).add(title)
            assert channel == "tooltip" or title in picture
    assert all(max(found) for found in titles.values())


@pytest.mark.parametrize("chart", EXAMPLES, ids=lambda chart: chart.__name__)
def test_colors_and_dashes_stand_for_what_the_rows_name(chart: Callable[..., Any]) -> None:
    for rows, encoding in views_of(chart):
        for _, one in channels(encoding):
            if "domain" in one.get("scale", {}):
                assert list(dict.fromkeys(row[one["field"]] for row in rows)) == one["scale"]["domain"]
                assert len(one["scale"]["range"]) == len(one["scale"]["domain"])


@cache
def vega_lite() -> jsonschema_rs.Validator:
    """The schema that Vega-Lite publishes, as altair ships it."""
    altair = importlib.util.find_spec("altair")
    assert altair is not None
    assert altair.submodule_search_locations is not None
    version = SCHEMA.rpartition("/")[2].removesuffix(".json")
    path = Path(altair.submodule_search_locations[0]) / "vegalite" / version / "schema" / "vega-lite-schema.json"
    return jsonschema_rs.validator_for(json.loads(path.read_text(), object_hook=_quoted))


def _quoted(schema: dict[str, Any]) -> dict[str, Any]:
    """Definitions are named for their types, such as MarkPropDef<number>, which no reference may hold as they are."""
    return schema | {"$ref": quote(schema["$ref"], safe="#/")} if "$ref" in schema else schema


def views_of(chart: Callable[..., Any]) -> Iterator[tuple[Rows, Spec]]:
    for spec in drawn(chart):
        yield from views(spec, [], {})


def views(spec: Spec, rows: Rows, encoding: Spec) -> Iterator[tuple[Rows, Spec]]:
    """The rows and the encodings that each single view draws, its own or those of what it stands in."""
    rows = spec.get("data", {"values": rows})["values"]
    encoding = encoding | spec.get("encoding", {})
    inner = [view for key in VIEWS for view in spec.get(key, [])]
    for view in inner:
        yield from views(view, rows, encoding)
    if not inner:
        yield rows, encoding


def channels(encoding: Spec) -> Iterator[tuple[str, dict[str, Any]]]:
    for channel, of_channel in encoding.items():
        for one in of_channel if isinstance(of_channel, list) else [of_channel]:
            yield channel, one
