"""The chart of a layout search draws what the fullest GPU of each layout holds."""

from sizing.present.rendering import render_svg
from sizing.questions.layouts.charts import layouts_chart
from sizing.questions.layouts.request import REFERENCE_SEARCH
from sizing.questions.registry import LAYOUTS
from tests.sizing.present.drawn_words import LETTERS, place_lines


def test_bars_add_up_to_what_the_fullest_gpu_holds_and_stay_below_the_lines() -> None:
    report = LAYOUTS.answer(REFERENCE_SEARCH)
    bars, lines = (layer["data"]["values"] for layer in layouts_chart(report)["layer"])
    together: dict[str, int] = {}
    for row in bars:
        together[row["layout"]] = together.get(row["layout"], 0) + row["bytes"]
    assert list(together.values()) == [layout.gpu_bytes for layout in report.layouts]
    assert [line["bytes"] for line in lines] == [report.gpu_memory_bytes, report.room_bytes]
    assert max(together.values()) <= report.room_bytes


def test_a_search_that_finds_nothing_or_counts_no_activations_is_drawn_too() -> None:
    for model in ("megatron-1t", "llama-3.1-8b"):
        report = LAYOUTS.answer({"model": {"preset": model}, "cluster": {"num_gpus": 8}})
        assert "<svg" in render_svg(layouts_chart(report))


def test_one_legend_stands_above_and_one_below_so_that_they_fit_a_narrow_page() -> None:
    lines = place_lines(layouts_chart(LAYOUTS.answer(REFERENCE_SEARCH)))
    assert lines["state"] < lines["on the fullest GPU"] < lines["without headroom"] - LETTERS
