"""`ckpt-size layouts` and `ckpt-size techniques` as their user runs them."""

import json
import re
from pathlib import Path

import pytest

from sizing.questions.layouts.request import REFERENCE_SEARCH
from sizing.questions.registry import LAYOUTS
from sizing.training.techniques import techniques
from tests.testbed.terminal import ckpt_size


def test_the_table_is_that_of_the_documentation() -> None:
    """The columns that differ are in the table, the best layout first."""
    text = (Path(__file__).parents[3] / "docs" / "explore.md").read_text()
    (example,) = re.findall(r"\$ ckpt-size (layouts .*?)\n(\d.*?)\n\.\.\.\n```", text, re.DOTALL)
    found = ckpt_size(*example[0].replace("\\\n", " ").split())
    assert found.returncode == 0, found.stderr
    lines = [line.rstrip() for line in found.stdout.splitlines()]
    assert lines[: example[1].count("\n") + 1] == example[1].splitlines()
    assert "The same in all of them: context 1, expert 1, micro-batch 1, recomputation full" in found.stdout
    assert "225 combinations of degrees" in found.stdout


def test_json_is_the_document_of_the_library_from_flags_or_a_document(tmp_path: Path) -> None:
    (tmp_path / "search.json").write_text(json.dumps(REFERENCE_SEARCH))
    expected = json.loads(LAYOUTS.answer(REFERENCE_SEARCH).model_dump_json())
    drawn = ckpt_size("layouts", "search.json", "--json", "--chart", "found.svg", cwd=tmp_path)
    assert json.loads(drawn.stdout) == expected
    assert "without headroom" in (tmp_path / "found.svg").read_text()
    (tmp_path / "scenario.json").write_text(json.dumps(REFERENCE_SEARCH["scenario"]))
    flags = ("--objective", "bubble", "--max-layouts", "5", "--headroom", "0.1", "--contexts", "1")
    assert json.loads(ckpt_size("layouts", "scenario.json", *flags, "--json", cwd=tmp_path).stdout) == expected


def test_where_nothing_fits_the_nearest_is_said_and_check_fails() -> None:
    flags = ("layouts", "--model", "megatron-1t", "--gpus", "64")
    found = ckpt_size(*flags)
    assert found.returncode == 0
    assert "0 layouts fit on 64 GPUs" in found.stdout
    assert "Does not fit on 64 GPUs: the nearest layout, tensor 8, pipeline 8, needs 287.1 GB" in found.stdout.replace(
        "\n", " "
    )
    assert ckpt_size(*flags, "--check").returncode == 1


def test_one_layout_on_one_gpu_is_said_in_the_singular() -> None:
    batch = ("--sequence-length", "4096", "--micro-batch", "1")
    found = ckpt_size("layouts", "--model", "llama-3.2-1b", "--gpus", "1", *batch).stdout
    assert found.startswith("1 layout fits on 1 GPU, 1 x dgx-h100; the best 1 by")
    assert "1 combination of degrees" in found


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--model gpt2", "error: cluster.num_gpus is required"),
        ("--model gpt2 --gpus 8 --contexts a", "--contexts must be a whole number"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(flags: str, sentence: str) -> None:
    found = ckpt_size("layouts", *flags.split())
    assert (found.returncode, found.stdout) == (2, "")
    assert sentence in found.stderr
    assert "Traceback" not in found.stderr


def test_techniques_are_listed_with_what_asks_for_them() -> None:
    shown = " ".join(ckpt_size("techniques").stdout.split())
    assert all(technique.name.split()[0] in shown for technique in techniques())
    assert "training.schedule: interleaved" in shown
