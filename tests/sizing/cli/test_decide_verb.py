"""`ckpt-size decide` as its user runs it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sizing.questions.decide.request import REFERENCE_DECISION
from sizing.questions.registry import DECIDE
from tests.testbed.terminal import ckpt_size

FILE = "offers.json"


def decide_verb(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return ckpt_size("decide", FILE, *arguments, cwd=cwd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / FILE).write_text(json.dumps(REFERENCE_DECISION))
    return tmp_path


def test_the_first_lines_say_what_to_take_and_why(folder: Path) -> None:
    found = decide_verb("--chart", "offers.svg", "--check", cwd=folder)
    assert found.returncode == 0, found.stderr
    first, second, *_ = found.stdout.splitlines()
    assert first == "2 offers over 90 days, money in USD"
    assert second.startswith("parallel file system costs least: ")
    for text in ("With your current settings it would cost", "all flash costs", "a GPU-hour cost", "--full prints"):
        assert text in found.stdout
    assert "Ledger" not in found.stdout
    full = decide_verb("--full", cwd=folder).stdout
    for text in (
        "With your current settings it would cost",
        "all flash costs",
        "Ledger",
        "GPU-hours",
        "a GPU-hour cost",
    ):
        assert text in full
    assert "write bandwidth, GB/s" in (folder / "offers.svg").read_text()


def test_json_is_the_document_of_the_library_with_scenarios_in_files_too(folder: Path) -> None:
    expected = json.loads(DECIDE.answer(REFERENCE_DECISION).model_dump_json())
    assert json.loads(decide_verb("--json", cwd=folder).stdout) == expected
    (workload,) = REFERENCE_DECISION["workloads"]
    (folder / "run.json").write_text(json.dumps(workload["scenario"]))
    in_a_file: dict[str, Any] = REFERENCE_DECISION | {"workloads": [workload | {"scenario": "run.json"}]}
    (folder / FILE).write_text(json.dumps(in_a_file))
    assert json.loads(decide_verb("--json", cwd=folder).stdout) == expected


@pytest.mark.parametrize("verb", ["decide", "cluster"])
def test_an_example_to_begin_with_is_answered(verb: str, tmp_path: Path) -> None:
    printed = ckpt_size(verb, "--example")
    (tmp_path / "example.yaml").write_text(printed.stdout)
    assert (printed.stderr, ckpt_size(verb, "example.yaml", cwd=tmp_path).returncode) == ("", 0)


def test_where_no_offer_is_enough_check_says_so(folder: Path) -> None:
    small = [offer | {"capacity_bytes": "1TB"} for offer in REFERENCE_DECISION["offers"]]
    (folder / FILE).write_text(json.dumps(REFERENCE_DECISION | {"offers": small}))
    found = decide_verb("--check", cwd=folder)
    assert found.returncode == 1
    assert "No offer is enough." in found.stdout
    assert "1T: keeps 27.60 TB, and 1.000 TB are offered" in found.stdout


def test_odds_say_how_sure_the_decision_is(folder: Path) -> None:
    ranges = {"per_lost_gpu_hour": {"low": 2, "high": 4}}
    (folder / FILE).write_text(json.dumps(REFERENCE_DECISION | {"odds": {"ranges": ranges}}))
    found = decide_verb("--odds", "5000", "--guesses", cwd=folder)
    assert found.returncode == 0, found.stderr
    for text in (
        "of 5,000 draws (95 % interval ",
        "Worth measuring next: price of a GPU-hour",
        "Odds of each",
    ):
        assert text in found.stdout
    for typed, rule in (("500000000", "at most 100000000, got '500000000'"), ("many", "a whole number, got 'many'")):
        refused = decide_verb("--odds", typed, cwd=folder)
        assert refused.returncode == 2
        assert f"odds.num_draws must be {rule}" in refused.stderr


def test_a_price_without_a_period_is_refused_in_one_sentence(folder: Path) -> None:
    broken = [offer | {"prices": [{"amount": 5, "per": "terabyte"}]} for offer in REFERENCE_DECISION["offers"][:1]]
    (folder / FILE).write_text(json.dumps(REFERENCE_DECISION | {"offers": broken}))
    found = decide_verb(cwd=folder)
    assert found.returncode == 2
    assert found.stderr.splitlines() == [
        "error: parallel file system: prices.0 has a price per terabyte without a period: give every: once, month or year."
    ]


def test_the_offer_of_a_wrong_field_is_named_where_there_is_no_answer(folder: Path) -> None:
    broken = REFERENCE_DECISION["offers"][0] | {"tiers": [{"kind": "local-nvme", "interval_seconds": 60}]}
    (folder / FILE).write_text(json.dumps(REFERENCE_DECISION | {"offers": [broken]}))
    assert decide_verb(cwd=folder).stderr.splitlines() == [
        "error: offers.0.tiers.0 ('parallel file system') needs storage: the rates of a local-nvme: "
        "give the tier a storage with profile or preset."
    ]


def test_offers_go_into_a_table_and_come_back_from_it(folder: Path) -> None:
    written = decide_verb("--write-offers", "offers.csv", "--json", cwd=folder)
    assert (written.returncode, written.stderr) == (0, "")
    rows = (folder / "offers.csv").read_text().splitlines()
    assert rows[:2] == ["offer,parallel file system,all flash", "write bandwidth,100 GB/s,400 GB/s"]
    (folder / "offers.csv").write_text((folder / "offers.csv").read_text().replace("all flash", "flash"))
    read = json.loads(decide_verb("--offers", "offers.csv", "--json", cwd=folder).stdout)
    renamed = json.loads(written.stdout.replace("all flash", "flash"))
    assert read["offers"] == renamed["offers"]
    refused = decide_verb("--write-offers", "offers.pdf", cwd=folder)
    assert (refused.returncode, "must end in .csv or .xlsx" in refused.stderr) == (2, True)


def test_growth_and_author_may_be_typed(folder: Path) -> None:
    found = json.loads(
        decide_verb("--growth", "1,2", "--growth-of", "model", "--author", "Ada", "--json", cwd=folder).stdout
    )
    same, twice = found["growth"]
    assert (found["author"], twice["of"], twice["times"]) == ("Ada", "model", 2)
    assert same["offers"][0]["total"] == found["offers"][0]["total"] < twice["offers"][0]["total"]


def test_odds_of_nothing_name_the_flag_that_would_give_them_something(folder: Path) -> None:
    refused = decide_verb("--odds", "5000", cwd=folder)
    assert refused.returncode == 2
    assert "give ranges here or in an offer, or set --guesses." in refused.stderr
