"""`ckpt-size tensors`: lists from checkpoints, headers alone, a config.json, and back into an answer."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.testbed.terminal import ckpt_size

SHAPES: dict[str, list[int]] = {
    "model.embed_tokens.weight": [512, 64],
    **{f"model.layers.{i}.self_attn.q_proj.weight": [64, 64] for i in range(4)},
    **{f"model.layers.{i}.self_attn.k_proj.weight": [32, 64] for i in range(4)},
    **{f"model.layers.{i}.self_attn.o_proj.weight": [64, 64] for i in range(4)},
    **{f"model.layers.{i}.mlp.up_proj.weight": [128, 64] for i in range(4)},
    **{f"model.layers.{i}.mlp.down_proj.weight": [64, 128] for i in range(4)},
    **{f"model.layers.{i}.input_layernorm.weight": [64] for i in range(4)},
    "model.norm.weight": [64],
    "lm_head.weight": [512, 64],
}
NUM_PARAMETERS = 2 * 512 * 64 + 4 * (64 * (64 + 32 + 64 + 128 + 128) + 64) + 64
CONFIG = {"model_type": "unheard-of", "num_attention_heads": 8, "num_key_value_heads": 4}


def header_of(shapes: dict[str, list[int]]) -> bytes:
    """A safetensors header, without the data behind it."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, size = end, 2
        for length in shape:
            size *= length
        end = begin + size
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model as a hub has it, of whose shards only the headers were fetched."""
    shards = {"model-1-of-2.safetensors": {}, "model-2-of-2.safetensors": {}}  # type: dict[str, dict[str, list[int]]]
    for place, (name, shape) in enumerate(SHAPES.items()):
        shards[f"model-{1 + place % 2}-of-2.safetensors"][name] = shape
    for name, shapes in shards.items():
        (tmp_path / name).write_bytes(header_of(shapes))
    weight_map = {tensor: name for name, shapes in shards.items() for tensor in shapes}
    index = {"metadata": {"total_size": 2 * NUM_PARAMETERS}, "weight_map": weight_map}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def listed(*arguments: str, cwd: Path) -> dict[str, Any]:
    found = ckpt_size("tensors", *arguments, "--json", cwd=cwd)
    assert found.returncode == 0, found.stderr
    model: dict[str, Any] = json.loads(found.stdout)["model"]
    return model


@pytest.mark.parametrize("path", [".", "model.safetensors.index.json"])
def test_headers_alone_give_the_list_and_the_config_beside_them_the_heads(folder: Path, path: str) -> None:
    model = listed(path, cwd=folder)
    assert model["num_attention_heads"] == 8
    assert model["num_kv_heads"] == 4
    assert {entry["name"]: entry["shape"] for entry in model["tensors"]}["model.layers.{0..3}.mlp.up_proj.weight"] == [
        128,
        64,
    ]
    assert len(model["tensors"]) == 9
    assert {entry["dtype"] for entry in model["tensors"]} == {"bfloat16"}


def test_the_table_shows_roles_and_counts(folder: Path) -> None:
    found = ckpt_size("tensors", ".", cwd=folder)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    (row,) = [line.split() for line in lines if "o_proj" in line]
    assert row == [
        "model.layers.{0..3}.self_attn.o_proj.weight",
        "64",
        "x",
        "64",
        "bfloat16",
        "4",
        "16,384",
        "layer,",
        "row",
    ]
    assert lines[-1] == f"{NUM_PARAMETERS:,} parameters in 4 layers"


def test_the_written_list_is_a_scenario(folder: Path) -> None:
    assert ckpt_size("tensors", ".", "--output", "model.json", cwd=folder).returncode == 0
    again = ckpt_size("tensors", "model.json", cwd=folder)
    assert f"{NUM_PARAMETERS:,} parameters in 4 layers" in again.stdout
    flags = ("--tensor", "4", "--pipeline", "2", "--data", "2", "--json")
    report = json.loads(ckpt_size("model.json", *flags, cwd=folder).stdout)
    assert report["model"]["num_parameters"] == NUM_PARAMETERS
    assert report["checkpoint"]["logical_bytes"] == 14 * NUM_PARAMETERS
    assert report["layout"]["num_gpus"] == 16


def test_a_config_says_that_further_prediction_is_not_in_the_list(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_nextn_predict_layers": 1}))
    said = ckpt_size("tensors", ".", cwd=folder).stdout
    assert "1 multi-token-prediction module of the config: no weights of them in the list" in " ".join(said.split())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "the list must be read from a PATH or from --hf-config, got 'none': give one."),
        (("cut.safetensors",), "ends within its header of"),
        (("alone/model.safetensors.index.json",), "put the first bytes of each shard beside it"),
        (("small.yaml",), "must be a scenario with model.tensors"),
        ((".", "--output", "none/model.json"), "--output cannot be written (No such file or directory)"),
        (("absent.safetensors",), "cannot be read (No such file or directory)"),
    ],
)
def test_what_is_no_list_is_refused_in_a_sentence(folder: Path, arguments: tuple[str, ...], sentence: str) -> None:
    (folder / "cut.safetensors").write_bytes(header_of(SHAPES)[:40])
    (folder / "alone").mkdir()
    (folder / "alone" / "model.safetensors.index.json").write_text(
        (folder / "model.safetensors.index.json").read_text()
    )
    (folder / "small.yaml").write_text("model: {preset: gpt2}")
    if arguments == (".", "--output", "none/model.json"):
        (folder / "cut.safetensors").unlink()
    found = ckpt_size("tensors", *arguments, cwd=folder)
    assert found.returncode == 2
    assert sentence in " ".join(found.stderr.split())
    assert "Traceback" not in found.stderr


def test_without_the_extra_a_config_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = ckpt_size("tensors", "--hf-config", "config.json", cwd=folder)
    assert found.returncode == 2
    assert "needs torch, which is not installed here" in found.stderr
    assert "checkpoint-sizing with its extra hf" in found.stderr


def test_an_unknown_model_type_says_the_way_to_its_list(folder: Path) -> None:
    found = ckpt_size("--hf-config", "config.json", cwd=folder)
    assert found.returncode == 2
    sentence = " ".join(found.stderr.split())
    assert "ckpt-size tensors --hf-config config.json --output model.json" in sentence


@pytest.mark.long
def test_transformers_builds_what_is_not_built_in(folder: Path) -> None:
    config = {"model_type": "rwkv", "hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 512}
    (folder / "rwkv.json").write_text(json.dumps(config))
    model = listed("--hf-config", "rwkv.json", cwd=folder)
    assert any(entry["name"] == "rwkv.blocks.{0..2}.attention.receptance.weight" for entry in model["tensors"])
    refused = ckpt_size("tensors", "--hf-config", "config.json", cwd=folder)
    assert refused.returncode == 2
    assert "must have a model_type of transformers" in refused.stderr
    (folder / "rwkv.json").write_text(json.dumps(config | {"hidden_size": "wide"}))
    broken = ckpt_size("tensors", "--hf-config", "rwkv.json", cwd=folder)
    assert broken.returncode == 2
    assert "must be a config that transformers" in broken.stderr
    assert "Traceback" not in broken.stderr
