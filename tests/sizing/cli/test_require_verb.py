"""`ckpt-size require` as its user runs it."""

import json
import subprocess

from tests.testbed.terminal import ckpt_size

FLAGS = (
    "--model megatron-1t --tensor 8 --pipeline 64 --data 6 --node dgx-a100 --observed-bytes 13.8TB "
    "--write-bandwidth 273GB/s --read-bandwidth 1TB/s --interval 4h --failures-per-node-day 0.0065 "
    "--format megatron --detection 0s --relaunch 0s"
).split()


def require(*arguments: str) -> subprocess.CompletedProcess[str]:
    return ckpt_size("require", *FLAGS, *arguments)


def test_a_row_for_each_question_and_what_to_buy_together() -> None:
    found = require("--max-stall", "60s", "--min-goodput", "0.9", "--recovery", "100s")
    assert found.returncode == 0, found.stderr
    for text in (
        "230.0 GB/s",
        "19.17 GB/s",
        "828.0 GB/s",
        "strictest",
        "27.60 TB",
        "Buy together: min write bandwidth 230.0 GB/s and min read bandwidth 828.0 GB/s and one checkpoint every "
        "2058.2964691 s (34.3 min) (at the interval asked for no bandwidth is enough), which meets all targets.",
    ):
        assert text in " ".join(found.stdout.split())


def test_json_is_the_report_and_check_judges_the_scenario_as_it_is() -> None:
    met, missed = require("--json", "--check"), require("--json", "--check", "--max-stall", "10s")
    assert (met.returncode, missed.returncode) == (0, 1)
    assert round(json.loads(missed.stdout)["needed"]["write_bytes_per_second"]) == 1_380_000_000_000
