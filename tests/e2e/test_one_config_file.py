"""One config file drives a real training and the prediction: files within 0.5 %, and as many folders as are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sizing.importers import ConfigText, ImportRequest, import_config_files
from sizing.report import answer
from sizing.scenario import scenario_from
from sizing.sized_layout import manifest_of
from tests.testbed.launch import REPOSITORY

SHAPE: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 512,
    "intermediate_size": 1376,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 8192,
    "tie_word_embeddings": False,
}
ARGUMENTS: dict[str, Any] = {
    "output_dir": "out",
    "max_steps": 4,
    "save_steps": 1,
    "save_total_limit": 2,
    "per_device_train_batch_size": 2,
    "learning_rate": 1e-3,
    "report_to": [],
    "use_cpu": True,
}
DEEPSPEED: dict[str, Any] = {
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "torch_adam": True}},
    "bf16": {"enabled": "auto"},
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "train_batch_size": "auto",
}
TOML = """
[model]
name = "llama3"
flavor = "tiny"
[optimizer]
name = "AdamW"
[training]
local_batch_size = 2
seq_len = 8
[parallelism]
data_parallel_shard_degree = 2
[checkpoint]
enable = true
interval = 1
keep_latest_k = 2
"""
TRAINER = """
import json, torch, transformers
from tests.sizing.checkpoint_files.library_folders import deepspeed_without_compiler
settings = json.load(open("args.json"))
if "deepspeed" in settings:
    deepspeed_without_compiler()
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**json.load(open("config.json"))))
tokens = torch.arange(8)
data = [{"input_ids": tokens, "labels": tokens}] * 32
transformers.Trainer(model, transformers.TrainingArguments(**settings), train_dataset=data).train()
"""
FSDP2 = """
import json, shutil, tomllib, torch, transformers
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard
settings = tomllib.load(open("train.toml", "rb"))
torch.distributed.init_process_group("gloo")
torch.manual_seed(0)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**json.load(open("config.json"))))
mesh = torch.distributed.init_device_mesh("cpu", (settings["parallelism"]["data_parallel_shard_degree"],))
for layer in model.model.layers:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = getattr(torch.optim, settings["optimizer"]["name"])(model.parameters())
tokens = torch.arange(settings["training"]["seq_len"]).expand(settings["training"]["local_batch_size"], -1)
for step in range(1, 5):
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    if step % settings["checkpoint"]["interval"] == 0:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=f"out/step-{step}")
        old = step - settings["checkpoint"]["keep_latest_k"]
        if torch.distributed.get_rank() == 0 and old > 0:
            shutil.rmtree(f"out/step-{old}")
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""
CASES: dict[str, tuple[str, dict[str, str], int]] = {
    "Trainer": (TRAINER, {"args.json": json.dumps(ARGUMENTS)}, 1),
    "Trainer with DeepSpeed": (
        TRAINER,
        {"args.json": json.dumps(ARGUMENTS | {"deepspeed": "ds.json", "bf16": True}), "ds.json": json.dumps(DEEPSPEED)},
        2,
    ),
    "FSDP2 by torchtitan's TOML": (FSDP2, {"train.toml": TOML}, 2),
}


@pytest.mark.long
@pytest.mark.parametrize(("program", "files", "num_ranks"), CASES.values(), ids=CASES)
def test_a_training_saves_what_its_config_file_says(
    program: str, files: dict[str, str], num_ranks: int, tmp_path: Path
) -> None:
    files = files | {"config.json": json.dumps(SHAPE)}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "train.py").write_text(program)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={num_ranks}"]
    environment = os.environ | {"DS_ACCELERATOR": "cpu", "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*torchrun, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]

    texts = [ConfigText(name=name, content=content) for name, content in files.items()]
    report = import_config_files(ImportRequest(files=texts, num_gpus=num_ranks))
    assert [each for each in report.needed if each.is_required] == []
    scenario = scenario_from(report.scenario)
    folders = sorted((tmp_path / "out").iterdir())
    assert len(folders) == scenario.retention.keep_last == 2
    saved = {path.name: path.stat().st_size for path in folders[-1].rglob("*") if path.is_file()}
    predicted = {row.file.rpartition("/")[2]: row.tensor_bytes for row in manifest_of(scenario)}
    missing = predicted.keys() - saved.keys()
    assert not missing, (missing, saved)
    assert predicted == {name: pytest.approx(saved[name], rel=5e-3) for name in predicted}
    beside = answer(scenario).export  # the Trainer's own weights beside DeepSpeed's files
    whole = sum(predicted.values()) + (beside.num_bytes if beside else 0)
    assert whole == pytest.approx(sum(saved.values()), rel=5e-3)
