"""Charts are drawn offline, say what they show, and stay readable without color."""

import itertools
import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from sizing.errors import InvalidInput
from sizing.present.chart import COLORS, DASHES, SHAPES, WIDTH, Spec, chart, quantity, series
from sizing.present.rendering import render_html, render_png, render_svg


@pytest.fixture
def spec() -> Spec:
    rows = [
        {"nodes": n, "bytes_per_second": n * rate, "system": name}
        for n in (1, 2, 4)
        for name, rate in (("A", 1e9), ("B", 2e9))
    ]
    return chart(
        "Write rate by nodes",
        subtitle="two systems",
        rows=rows,
        mark={"type": "line", "point": True},
        encoding={
            "x": quantity("nodes", "nodes", scale="log"),
            "y": quantity("bytes_per_second", "write rate"),
            **series("system", "System", ["A", "B"]),
        },
    )


def test_an_svg_has_title_axis_labels_with_units_and_both_series(spec: Spec) -> None:
    text = " ".join(ET.fromstring(render_svg(spec)).itertext())  # noqa: S314 - our own
    for label in ("Write rate by nodes", "two systems", "write rate", "8 GB/s", "System", "A", "B"):
        assert label in text
    assert 'stroke-dasharray="8,4"' in render_svg(spec)


def test_each_line_of_an_svg_has_the_width_that_arial_gives_it_in_whatever_font_it_is_drawn(spec: Spec) -> None:
    """Widths of letters as Adobe's metrics of Helvetica state them, which Arial and Liberation Sans share."""
    b, g, slash, s, blank, eight = 667, 778, 278, 500, 278, 556
    texts = ET.fromstring(render_svg(spec | {"title": {"text": ["B & B", "H"], "fontSize": 20}}))  # noqa: S314 - our own
    lines = [node for node in texts.iter() if node.text and node.tag.endswith(("text", "tspan"))]
    widths = {str(line.text): float(line.attrib["textLength"]) for line in lines}
    assert widths["8 GB/s"] == pytest.approx(11 * (eight + blank + g + b + slash + s) / 1000, abs=0.01)
    assert widths["H"] == pytest.approx(20 * 722 / 1000, abs=0.01), "of bold letters"
    assert widths["B & B"] == pytest.approx(20 * (722 + 278 + 722 + 278 + 722) / 1000, abs=0.01)
    assert {line.get("lengthAdjust") for line in lines} == {"spacingAndGlyphs"}


def test_a_png_is_one_and_has_twice_the_size(spec: Spec) -> None:
    image = render_png(spec)
    assert image.startswith(b"\x89PNG")
    width, single = (int.from_bytes(picture[16:20]) for picture in (image, render_png(spec, scale=1)))
    assert single > WIDTH
    assert width == pytest.approx(2 * single, abs=2)


def test_a_page_holds_its_scripts_and_fetches_nothing(spec: Spec) -> None:
    page = render_html(spec)
    assert "Write rate by nodes" in page
    assert "<script src" not in page
    assert "<link" not in page


def test_data_from_outside_is_not_fetched(spec: Spec) -> None:
    with pytest.raises(ValueError, match="External data url not allowed"):
        render_svg(spec | {"data": {"url": "http://127.0.0.1:9/data.json"}})


def test_a_spec_is_plain_json(spec: Spec) -> None:
    assert json.loads(json.dumps(spec)) == spec


def test_without_the_extra_one_sentence_says_what_to_install(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(InvalidInput, match=r"pip install 'checkpoint-sizing\[charts\]'"):
        render_svg(spec)


def test_making_a_spec_loads_no_renderer() -> None:
    code = "import sys, sizing.present.chart, sizing.present.rendering; sys.exit('vl_convert' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_neighbouring_series_differ_in_brightness_dash_and_shape() -> None:
    brightness = [_relative_luminance(color) for color in COLORS]
    for one, other in itertools.pairwise(brightness):
        assert (max(one, other) + 0.05) / (min(one, other) + 0.05) > 1.2
    assert len(COLORS) == len(set(COLORS)) == len(set(DASHES)) == len(set(SHAPES))


def _relative_luminance(color: str) -> float:
    """WCAG 2.2, relative luminance."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
