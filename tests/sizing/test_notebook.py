"""The library in a notebook: one import, reports and charts that draw themselves, and the notebook of the documents."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sizing
from sizing import answer
from sizing.present.chart import chart
from sizing.questions.answer.charts import report_charts
from sizing.report import SizingReport
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
VEGA_LITE = "application/vnd.vegalite.v5+json"


@pytest.fixture(scope="module")
def report() -> SizingReport:
    return answer(REFERENCE_SCENARIO)


def test_a_mapping_is_answered_as_the_scenario_that_it_describes(report: SizingReport) -> None:
    assert report == answer(scenario_from(REFERENCE_SCENARIO))


def test_to_import_the_package_takes_nothing_with_it() -> None:
    code = (
        "import sys, sizing\n"
        "assert not {'pydantic', 'numpy', 'yaml', 'sizing.report'} & set(sys.modules)\n"
        "from sizing import answer\n"
        "assert answer.__module__ == 'sizing.report'\n"
        "assert not {'sizing.questions.answer.words', 'sizing.present.chart', 'IPython', 'rich'} & set(sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 0, found.stderr


def test_what_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'anwser'"):
        _ = sizing.anwser


def test_a_report_shows_its_figures_and_warnings_as_html(report: SizingReport) -> None:
    shown = report._repr_html_()
    for figure in ("megatron-1t", "13.80 TB", "50.55 s", "19.17 GB/s", "Who writes what"):
        assert figure in shown
    assert all(warning.split(":")[0] in shown for warning in report.warnings)


def test_a_name_that_looks_like_html_is_shown_as_text() -> None:
    config = {"_name_or_path": "<script>alert(1)</script>", "model_type": "gpt2"}
    named = answer({"model": {"huggingface_config": config | GPT}})
    assert "<script>" not in named._repr_html_()


GPT = {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}


def test_every_chart_of_a_report_is_drawn_by_a_notebook(report: SizingReport) -> None:
    charts = report_charts(scenario_from(REFERENCE_SCENARIO), report)
    assert charts
    for each in charts:
        bundle: dict[str, Any] = each._repr_mimebundle_(include=None, exclude=None)
        assert bundle[VEGA_LITE] == each
        assert bundle["text/plain"] == each["description"]


def test_a_chart_is_still_plain_data() -> None:
    made = chart("A", rows=[], mark="point")
    assert made == dict(made)
    assert made | {"height": 1} == {**made, "height": 1}


@pytest.mark.long
def test_the_notebook_of_the_documents_runs_as_it_stands() -> None:
    import nbformat  # noqa: PLC0415 - a second, which every process that collects tests would take
    from nbclient import NotebookClient  # noqa: PLC0415 - as above

    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in codes), "keep outputs out of it: they grow stale"
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    by_id = {cell.id: output_of(cell) for cell in codes}
    assert "50.55 s" in by_id["ask"]["text/html"]
    assert by_id["figures"]["text/plain"] == "(14112542617600, 50.55, 512)"
    assert len(by_id["draw"][VEGA_LITE]["data"]["values"]) > 100
    assert len(by_id["what-if"][VEGA_LITE]["data"]["values"]) == 25
    assert "tensor 8, pipeline 16, data 16" in by_id["lay-out"]["text/plain"]


def output_of(cell: Any) -> Any:
    """What the last line of a cell showed."""
    (output,) = cell.outputs
    assert output.output_type == "execute_result"
    return output.data
