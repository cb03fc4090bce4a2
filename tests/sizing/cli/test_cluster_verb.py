"""`ckpt-size cluster` as its user runs it."""

import json
from pathlib import Path

import pytest
import yaml

from sizing.questions.cluster.request import REFERENCE_CLUSTER
from tests.testbed.terminal import ckpt_size

CLUSTER = REFERENCE_CLUSTER | {"horizon_seconds": "1d"}


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(CLUSTER))
    return "jobs.yaml"


def test_a_table_and_a_chart_show_stalls_storms_and_what_to_buy(tmp_path: Path, jobs: str) -> None:
    found = ckpt_size("cluster", jobs, "--chart", "cluster.svg", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    for text in ("41 jobs on 704 nodes (5,632 GPUs)", "51.79 s", "worst rack", "power of all nodes", "37.27 TB"):
        assert text in found.stdout
    assert found.stderr == ""
    svg = (tmp_path / "cluster.svg").read_text()
    assert "hour of simulation" in svg
    assert "1T" in svg


def test_json_holds_the_report_and_scenarios_may_stand_in_files(tmp_path: Path, jobs: str) -> None:
    whole = json.loads(ckpt_size("cluster", jobs, "--json", cwd=tmp_path).stdout)
    groups = []
    for group in CLUSTER["jobs"]:
        (tmp_path / f"{group['name']}.json").write_text(json.dumps(group["scenario"] | {"storage": CLUSTER["storage"]}))
        groups.append(group | {"scenario": f"{group['name']}.json"})
    (tmp_path / "files.json").write_text(json.dumps(CLUSTER | {"jobs": groups}))
    by_files = json.loads(ckpt_size("cluster", "files.json", "--json", cwd=tmp_path).stdout)
    assert by_files == whole
    assert whole["jobs"][0]["checkpoint_bytes"] == 14_137_962_496_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["jobs.yaml", "--chart", "cluster.gif"], "--chart must end in .html, .json, .png, .svg, got 'cluster.gif'"),
        (["jobs.yaml", "--chart", "no/such/folder.json"], "--chart cannot be written"),
        (["nowhere.yaml"], "nowhere.yaml cannot be read"),
        (["empty.json"], "jobs is required"),
        (
            ["typo.json"],
            'jobs.0.scenari (\'a\') is not a known field, got {"model": {"preset": "gpt2"}}: did you mean scenario',
        ),
    ],
)
def test_bad_input_ends_with_sentences_and_exit_code_2(
    tmp_path: Path, jobs: str, arguments: list[str], sentence: str
) -> None:
    assert jobs
    (tmp_path / "empty.json").write_text("{}")
    typo = CLUSTER | {"jobs": [{"name": "a", "scenari": {"model": {"preset": "gpt2"}}}]}
    (tmp_path / "typo.json").write_text(json.dumps(typo))
    found = ckpt_size("cluster", *arguments, cwd=tmp_path)
    assert found.returncode == 2
    assert sentence in found.stderr
    assert "Traceback" not in found.stderr


def test_a_missed_target_is_exit_code_1_where_it_is_asked_for(tmp_path: Path) -> None:
    for recovery, code in (("1h", 0), ("5min", 1)):
        asked = CLUSTER | {"targets": {"recovery_seconds": recovery}}
        (tmp_path / "jobs.json").write_text(json.dumps(asked))
        assert ckpt_size("cluster", "jobs.json", "--check", cwd=tmp_path).returncode == code


def test_a_check_without_a_target_does_not_pass(tmp_path: Path, jobs: str) -> None:
    found = ckpt_size("cluster", jobs, "--check", cwd=tmp_path)
    assert found.returncode == 1
    assert "No target given." in found.stdout
