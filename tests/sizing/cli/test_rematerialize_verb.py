"""`ckpt-size rematerialize` as its user runs it."""

import json

from tests.testbed.terminal import ckpt_size

GPT3 = (
    "rematerialize --model gpt3-175b --tensor 8 --pipeline 8 --data 16 --node dgx-a100 "
    "--sequence-length 2048 --micro-batch 2 --global-batch 1536"
).split()


def test_the_layers_to_compute_again_are_said_with_their_cost_and_in_megatron_s_words() -> None:
    shown = " ".join(ckpt_size(*GPT3, "--gpu-memory", "70GB").stdout.split())
    assert "Compute 6 layers per stage again: 16.7 % more compute" in shown
    assert "--recompute-method block --recompute-num-layers 6" in shown
    report = json.loads(ckpt_size(*GPT3, "--gpu-memory", "70GB", "--json").stdout)
    assert report["num_recomputed_layers"] == 6


def test_what_cannot_fit_fails_a_check_and_says_the_least() -> None:
    found = ckpt_size(*GPT3, "--gpu-memory", "40GB", "--check")
    assert found.returncode == 1
    assert "the least is 53.04 GB" in " ".join(found.stdout.split())


def test_a_batch_is_asked_for() -> None:
    found = ckpt_size("rematerialize", "--model", "gpt2")
    assert found.returncode == 2
    assert "is required to say what activations take" in " ".join(found.stderr.split())
