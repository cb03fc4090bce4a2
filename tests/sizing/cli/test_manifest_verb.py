"""`ckpt-size manifest` as its user runs it."""

import csv
import json

import pytest

from tests.testbed.terminal import ckpt_size

LLAMA = ("--model", "llama-3.1-70b", "--framework", "fsdp2", "--data", "8", "--node", "dgx-h100")


def test_the_columns_of_csv_are_the_fields_of_json_and_add_up_to_what_they_name() -> None:
    rows = list(csv.DictReader(ckpt_size("manifest", *LLAMA, "--csv").stdout.splitlines()))
    report = json.loads(ckpt_size("manifest", *LLAMA, "--json").stdout)
    assert [{name: str(value) for name, value in file.items()} for file in report["files"]] == rows
    size = report["checkpoint"]
    assert sum(int(row["tensor_bytes"]) for row in rows) == size["total_bytes"]
    beside = size["container_bytes"] + size["small_state_bytes"][".metadata"]
    assert sum(int(row["container_bytes"]) for row in rows) == beside


@pytest.mark.parametrize("verb", [("manifest",), ("sweep", "--interval", "1h,2h")])
def test_csv_and_json_at_once_are_refused(verb: tuple[str, ...]) -> None:
    found = ckpt_size(*verb, *LLAMA, "--csv", "--json")
    assert (found.returncode, found.stdout) == (2, "")
    assert "--csv cannot stand beside --json: remove one of them" in " ".join(found.stderr.split())
