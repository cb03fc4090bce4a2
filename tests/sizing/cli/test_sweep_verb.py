"""`ckpt-size sweep` as its user runs it."""

import csv
import io
import json
import re
import subprocess
from pathlib import Path

import pytest

from sizing.questions.registry import SWEEP
from sizing.questions.sweep.request import REFERENCE_SWEEP
from tests.testbed.terminal import ckpt_size

FLAGS = (
    "--model megatron-1t --tensor 8 --pipeline 64 --data 6 --node dgx-a100 --read-bandwidth 1TB/s "
    "--write-bandwidth 20GB/s..1TB/s:18:log --interval 15min..4h:16:log --failures-per-node-day 0.00234,0.0065 "
    "--format megatron --detection 0s --relaunch 0s"
).split()


def sweep_verb(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return ckpt_size("sweep", *arguments, cwd=cwd)


def test_the_best_rows_are_a_table_and_a_chart(tmp_path: Path) -> None:
    found = sweep_verb(*FLAGS, "--objective", "bandwidth", "--objective", "goodput", "--chart", "s.svg", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "18 best rows of 576" in found.stdout
    assert "The same in all of them: reliability: failures per node day 0.00234" in found.stdout
    assert "Bandwidth against goodput" in (tmp_path / "s.svg").read_text()


def test_a_front_of_one_row_is_a_table_of_its_figures() -> None:
    flags = "--model gpt2 --write-bandwidth 1GB/s --read-bandwidth 1GB/s --interval 10min,1h --objective overhead"
    found = sweep_verb(*flags.split())
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("1 best row of 2\n")
    assert re.search(r"^ *checkpoint: interval +60\.0 min *$", found.stdout, re.MULTILINE)
    assert re.search(r"^ *write: time +\S+ m?s *$", found.stdout, re.MULTILINE)
    assert "The same in all" not in found.stdout


def test_json_is_the_document_of_the_library_by_flags_or_by_file(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text(json.dumps(REFERENCE_SWEEP))
    by_file = json.loads(sweep_verb("sweep.json", "--json", cwd=tmp_path).stdout)
    assert by_file == json.loads(SWEEP.answer(REFERENCE_SWEEP).model_dump_json())
    objectives = ["--objective", "bandwidth", "--objective", "goodput"]
    by_flags = json.loads(sweep_verb(*FLAGS, *objectives, "--json", cwd=tmp_path).stdout)
    assert sorted(map(str, by_flags["columns"])) == sorted(by_file["columns"])
    assert by_flags["num_rows"] == by_file["num_rows"]


def test_csv_has_every_row_and_on_standard_error_what_has_no_answer() -> None:
    flags = "--model gpt3-175b --tensor 7,8 --write-bandwidth 100GB/s,1TB/s --figure write.seconds --csv"
    found = sweep_verb(*flags.split(), "--format", "megatron")
    rows = list(csv.DictReader(io.StringIO(found.stdout)))
    assert [row["storage.profile.write_bytes_per_second"] for row in rows] == ["100000000000.0", "1000000000000.0"]
    assert float(rows[0]["write.seconds"]) == pytest.approx(10 * float(rows[1]["write.seconds"]))
    assert "no answer for 2 rows: parallelism.tensor must divide" in found.stderr


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--model gpt2 --interval 1s..1000s:1000000 --mtbf 1h..9h:1001", "must have at most 1,000,000,000 rows"),
        (
            "--model gpt2 --interval 1h,2h --objective stall --chart x.svg",
            "--objective must name two or more for a chart",
        ),
        ("--model gpt2 --interval 1h,2h --objective speed", "--objective must be one of"),
        ("--model gpt2 --tensor 5,7 --csv", "has no row with an answer"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_exit_code_2(flags: str, sentence: str, tmp_path: Path) -> None:
    found = sweep_verb(*flags.split(), cwd=tmp_path)
    assert found.returncode == 2
    assert sentence in found.stderr
    assert "Traceback" not in found.stderr
