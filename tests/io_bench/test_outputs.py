from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from io_bench.results.outputs import csv_text, document_text, reserve_outputs
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult
from tests.io_bench.test_result_table import RESULT


def test_the_document_reads_back_equal_and_leaves_out_what_was_not_measured() -> None:
    text = document_text(RESULT)
    assert BenchmarkResult.model_validate_json(text) == RESULT
    assert "limited_by" not in text


def test_a_number_of_a_rank_takes_no_line_of_its_own_and_text_stays_as_it_is() -> None:
    seconds = [[1.234567, 2e-06, 30.0]] * 2
    measurement = RESULT.measurements[0].model_copy(update={"rank_seconds": seconds, "num_ranks": 3})
    warning = 'lists look like [\n  1,\n  2\n] or "[1,2]"'
    text = document_text(RESULT.model_copy(update={"measurements": [measurement], "warnings": [warning]}))
    assert json.loads(text)["warnings"] == [warning]
    assert json.loads(text)["measurements"][0]["rank_seconds"] == seconds
    assert text.count("[1.234567, 2e-6, 30.0]") + text.count("[1.234567, 2e-06, 30.0]") == 2


def test_a_table_has_a_row_per_measurement_with_units_in_the_names_of_columns() -> None:
    changed = {"rate_interval_bytes_per_second": (7e9, 9e9), "phase_seconds": {"read": 9.5}, "limited_by": "storage"}
    measurement = RESULT.measurements[0].model_copy(update=changed)
    result = RESULT.model_copy(
        update={
            "measurements": [measurement, measurement],
            "environment": {"versions": {"checkpoint-sizing": "0.1.0"}},
            "command": ["ckpt-bench", "run", "--target", "a b"],
        }
    )
    first, second = csv.DictReader(io.StringIO(csv_text(result)))
    assert first == second
    assert (first["run_id"], first["version"], first["command"]) == ("r", "0.1.0", "ckpt-bench run --target 'a b'")
    assert (first["median_seconds"], first["min_seconds"], first["max_seconds"]) == ("10.0", "8.0", "16.0")
    assert (first["low_bytes_per_second"], first["high_bytes_per_second"]) == ("7000000000.0", "9000000000.0")
    assert json.loads(first["phase_seconds"]) == {"read": 9.5}
    assert (first["bytes_per_rank"], first["limited_by"], first["block_bytes"]) == (str(20 * 10**9), "storage", "")


def test_all_files_are_proven_first_and_appear_together(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("r.json", "r.csv", "r.html")]
    with reserve_outputs(str(names[0]), csv=str(names[1]), charts={str(names[2]): lambda _: b"<html>"}) as outputs:
        assert not any(name.exists() for name in names)
        outputs.write(RESULT)
        assert outputs.paths == tuple(names)
    assert names[2].read_bytes() == b"<html>"
    assert sorted(tmp_path.iterdir()) == sorted(names)


def test_a_table_that_cannot_be_written_is_refused_under_its_flag_and_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidInput, match="--csv must be a file that can be written"),
        reserve_outputs(str(tmp_path / "r.json"), csv=str(tmp_path / "no" / "r.csv")),
    ):
        pytest.fail("never gets here")
    assert list(tmp_path.iterdir()) == []
