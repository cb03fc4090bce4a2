"""`ckpt-size nodes` lists adapters as published, and `--storage-nics` gives one's own."""

import json

import pytest

from tests.testbed.terminal import ckpt_size


def test_compute_and_storage_adapters_are_listed_apart_and_the_unknown_says_why() -> None:
    (known,) = json.loads(ckpt_size("nodes", "dgx-a100", "--json").stdout)
    assert known["network_row"] == "DGX A100 (80 GB)"
    assert known["compute_nics"] == {"num": 8, "bytes_per_second": 25e9}
    assert known["storage_nics"] == {"num": 2, "bytes_per_second": 25e9}
    (unknown,) = json.loads(ckpt_size("nodes", "dgx-h100", "--json").stdout)
    assert "storage_nics" not in unknown
    assert unknown["network_note"].startswith("sources differ: 2 x 400 Gb/s")
    shown = {name: " ".join(ckpt_size("nodes", name).stdout.split()) for name in ("dgx-a100", "dgx-h100")}
    assert "8 x 200 Gb/s" in shown["dgx-a100"]
    assert "2 x 200 Gb/s" in shown["dgx-a100"]
    assert "unknown:" in shown["dgx-h100"]


def test_own_adapters_on_the_command_line_bound_the_answer() -> None:
    typed = (
        "--model",
        "llama-3.1-405b",
        "--tensor",
        "8",
        "--pipeline",
        "8",
        "--write-bandwidth",
        "5TB/s",
        "--format",
        "megatron",
    )
    found = json.loads(ckpt_size(*typed, "--storage-nics", "2x400Gb/s", "--json").stdout)
    assert found["write"]["bottleneck"] == "storage-network"
    (adapters,) = (limit for limit in found["write"]["limits"] if limit["resource"] == "storage-network")
    num_nodes, fullest = found["layout"]["num_writing_nodes"], found["layout"]["max_node_bytes"]
    assert adapters["seconds"] == pytest.approx(fullest / 100e9)
    assert found["write"]["per_node_bytes_per_second"] == pytest.approx(
        100e9 * found["checkpoint"]["written_bytes"] / num_nodes / fullest
    )


@pytest.mark.parametrize("text", ["2", "400Gb/s", "2x400"])
def test_adapters_without_number_or_unit_are_refused_by_the_flag(text: str) -> None:
    refused = ckpt_size("--model", "gpt2", "--storage-nics", text)
    assert refused.returncode == 2
    assert refused.stderr == (
        f"error: --storage-nics is not a number of adapters with the rate of one, got '{text}': "
        "write for example 2 x 400 Gb/s.\n"
    )
