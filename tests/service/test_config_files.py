"""Config files over REST: what they become, what is asked for, and that nothing else of them is kept or told."""

from __future__ import annotations

from typing import Any

import httpx

from sizing.importers.request import REFERENCE_IMPORT

SECRET = "hf_0123456789abcdef"  # noqa: S105 - a made-up one, looked for in the answer


def imported(client: httpx.Client, *files: tuple[str, str], **request: Any) -> httpx.Response:
    named = [{"name": name, "content": content} for name, content in files]
    return client.post("/v1/imports", json={"files": named} | request)


def test_the_example_becomes_a_scenario_that_is_answered(client: httpx.Client) -> None:
    report = client.post("/v1/imports", json=REFERENCE_IMPORT).json()
    assert report["scenario"]["parallelism"] | {"data": 0} == {
        "tensor": 8,
        "pipeline": 1,
        "context": 1,
        "expert": 1,
        "data": 0,
    }
    assert client.post("/v1/sizings", json=report["scenario"]).status_code == 200


def test_values_that_became_no_field_are_not_told(client: httpx.Client) -> None:
    script = (
        f"export HF_TOKEN={SECRET}\n"
        "torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-2-7b-hf --output_dir /home/ann/out "
        f"--hub_token {SECRET} --save_steps 100 --save_total_limit 2 --per_device_train_batch_size 1 --bf16 True\n"
    )
    answer = imported(client, ("run.sh", script))
    assert answer.status_code == 200, answer.text
    assert SECRET not in answer.text
    assert "/home/ann" not in answer.text
    assert answer.json()["scenario"]["model"] == {"preset": "llama-2-7b"}


def test_scripts_are_never_run(client: httpx.Client, tmp_path: Any) -> None:
    script = (
        f"touch {tmp_path}/ran; X=$(touch {tmp_path}/ran)\ntorchrun train.py --save_steps $X --output_dir a --bf16\n"
    )
    imported(client, ("run.sh", script), num_gpus=8)
    assert not (tmp_path / "ran").exists()


def test_contradictions_and_files_of_no_kind_are_problems(client: httpx.Client) -> None:
    one, other = (f'[model]\nflavor = "8B"\n[parallelism]\ntensor_parallel_degree = {n}\n' for n in (2, 4))
    answer = imported(client, ("a.toml", one), ("b.toml", other), num_gpus=8)
    assert answer.status_code == 422
    assert "parallelism.tensor is 2 in a.toml: parallelism.tensor_parallel_degree and 4 in b.toml" in answer.text
    assert imported(client, ("a.txt", "nothing: at all")).status_code == 422
