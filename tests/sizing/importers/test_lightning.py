"""Lightning's YAML, as LightningCLI reads it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.sizing.importers.imports import fields_of, import_texts


def _document(trainer: dict[str, Any], checkpoint: dict[str, Any] | None = None, **blocks: Any) -> str:
    """Return a config of LightningCLI with a ModelCheckpoint."""
    callbacks: list[dict[str, Any]] = [{"class_path": "lightning.pytorch.callbacks.LearningRateMonitor"}]
    if checkpoint is not None:
        callbacks.append({"class_path": "lightning.pytorch.callbacks.ModelCheckpoint", "init_args": checkpoint})
    settings = {"seed_everything": 42, "trainer": {**trainer, "accelerator": "gpu", "callbacks": callbacks}}
    return yaml.safe_dump({**settings, "model": {"class_path": "x.Model"}, "data": {"class_path": "x.Data"}, **blocks})


FILES: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "DDP, the two best and the last": (
        _document(
            {"strategy": "ddp", "devices": 8, "num_nodes": 2, "precision": "bf16-mixed", "max_epochs": 1},
            {"save_top_k": 2, "save_last": True, "monitor": "val_loss", "every_n_train_steps": 1000},
            optimizer={"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.001}},
        ),
        {
            "cluster.num_gpus": 16,
            "training.framework": "lightning",
            "training.precision": "bf16-mixed",
            "training.optimizer": "adamw",
            "parallelism.data": 16,
            "parallelism.shard_group": None,
            "checkpoint.interval_steps": 1000,
            "retention.keep_last": 1,
            "retention.keep_best": 2,
        },
        set(),
    ),
    "FSDP with shards": (
        _document(
            {
                "strategy": {
                    "class_path": "lightning.pytorch.strategies.FSDPStrategy",
                    "init_args": {"state_dict_type": "sharded", "cpu_offload": True},
                },
                "devices": [0, 1, 2, 3],
                "precision": "bf16-true",
            },
            {"save_top_k": -1, "every_n_train_steps": 250, "save_weights_only": True},
        ),
        {
            "cluster.num_gpus": 4,
            "training.precision": "bf16",
            "training.offload.weights": "host",
            "training.saved_state": {"master": None, "moments": None},
            "parallelism.shard_group": 4,
            "checkpoint.format": "fsdp-sharded",
        },
        {"training.optimizer", "retention.keep_last"},
    ),
    "DeepSpeed by name": (
        _document({"strategy": "deepspeed_stage_3_offload", "devices": 8, "precision": "bf16-true"}, {"save_top_k": 1}),
        {
            "training.framework": "deepspeed",
            "training.precision": "bf16-mixed",
            "training.offload.optimizer": "host",
            "training.offload.weights": "host",
            "parallelism.zero_stage": 3,
            "retention.keep_last": 1,
            "retention.keep_best": None,
        },
        {"training.optimizer", "checkpoint.interval_seconds"},
    ),
    "all GPUs, by epochs": (
        _document({"devices": "auto", "max_epochs": 3}),
        {"cluster.num_gpus": None, "training.precision": "fp32"},
        {"cluster.num_gpus", "training.optimizer", "checkpoint.interval_seconds"},
    ),
}


@pytest.mark.parametrize(("text", "expected", "asked"), FILES.values(), ids=list(FILES))
def test_a_file_becomes_the_fields_that_it_gives(text: str, expected: dict[str, Any], asked: set[str]) -> None:
    report = import_texts(text, name="fit.yaml")
    assert fields_of(report, expected) == expected
    assert {each.field for each in report.needed} - {"storage.preset", "training.step_seconds", "model.preset"} == asked


def test_the_verb_fit_may_hold_the_settings() -> None:
    inner = yaml.safe_load(_document({"devices": 2, "strategy": "ddp", "precision": "16-mixed"}))
    report = import_texts(yaml.safe_dump({"fit": inner}), name="fit.yaml")
    expected = {"cluster.num_gpus": 2, "training.precision": "fp16-mixed"}
    assert fields_of(report, expected) == expected
