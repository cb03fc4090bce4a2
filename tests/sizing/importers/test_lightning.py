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


_SGD, _ADAM = "torch.optim.SGD", "torch.optim.AdamW"


@pytest.mark.parametrize(
    ("name", "arguments", "optimizer"),
    [
        (_SGD, {"lr": 1}, "sgd"),
        (_SGD, {"lr": 1, "momentum": 0}, "sgd"),
        (_SGD, {"lr": 1, "momentum": 0.9}, "sgd-momentum"),
        (_ADAM, {"lr": 1, "amsgrad": False}, "adamw"),
        (_ADAM, {"lr": 1, "amsgrad": True}, "adam-amsgrad"),
    ],
)
def test_arguments_of_an_optimizer_say_what_it_keeps(name: str, arguments: dict[str, Any], optimizer: str) -> None:
    document = yaml.safe_load(_document({"devices": 2, "strategy": "ddp", "precision": "16-mixed"}))
    by_class = {**document, "optimizer": {"class_path": name, "init_args": arguments}}
    by_target = {**document, "model": {"optimizer": {"_target_": name, **arguments}}}
    for each in (by_class, by_target):
        report = import_texts(yaml.safe_dump(each), name="fit.yaml")
        assert fields_of(report, ["training.optimizer"]) == {"training.optimizer": optimizer}


def test_buffers_that_no_optimizer_of_the_catalog_keeps_are_told() -> None:
    document = yaml.safe_load(_document({"devices": 2, "strategy": "ddp", "precision": "16-mixed"}))
    arguments = {"momentum": 0.9, "centered": False}
    optimizer = {"class_path": "torch.optim.RMSprop", "init_args": arguments}
    report = import_texts(yaml.safe_dump({**document, "optimizer": optimizer}), name="fit.yaml")
    assert {row.setting for row in report.not_understood} == {"optimizer.init_args.momentum"}


def test_averages_of_weights_and_plugins_that_save_otherwise_are_told_or_read() -> None:
    callbacks = [
        {"class_path": "lightning.pytorch.callbacks.ModelCheckpoint", "init_args": {"every_n_train_steps": 5}},
        {"class_path": "lightning.pytorch.callbacks.StochasticWeightAveraging", "init_args": {"swa_lrs": 1}},
    ]
    plugins = [{"class_path": "lightning.pytorch.plugins.io.AsyncCheckpointIO"}, "a.SLURMEnvironment"]
    trainer = {"devices": 2, "strategy": "ddp", "precision": "32", "callbacks": callbacks, "plugins": plugins}
    report = import_texts(yaml.safe_dump({"trainer": trainer}), name="fit.yaml")
    assert fields_of(report, ["checkpoint.mode"]) == {"checkpoint.mode": "async"}
    assert "trainer.callbacks" in {row.setting for row in report.not_understood}
    assert "StochasticWeightAveraging" in {each.field: each.why for each in report.needed}["training.saved_state.ema"]
    by_hydra = {
        "trainer": {"devices": 2, "strategy": "ddp", "precision": "16-mixed", "plugins": "a.MixedPrecision"},
        "callbacks": {"ema": {"_target_": "lightning.pytorch.callbacks.EMAWeightAveraging"}},
    }
    report = import_texts(yaml.safe_dump(by_hydra), name="fit.yaml")
    assert {"training.saved_state.ema", "training.precision"} <= {each.field for each in report.needed}


def test_layers_that_fsdp_computes_again_are_recomputation() -> None:
    arguments = {"activation_checkpointing_policy": ["torch.nn.TransformerEncoderLayer"]}
    strategy = {"class_path": "lightning.pytorch.strategies.FSDPStrategy", "init_args": arguments}
    trainer = {"devices": 2, "strategy": strategy, "precision": "32", "max_epochs": 1}
    report = import_texts(yaml.safe_dump({"trainer": trainer}), name="fit.yaml")
    name = "trainer.strategy.init_args.activation_checkpointing_policy"
    assert {row.setting: row.note for row in report.understood}[name] == (
        "counts with training.micro_batch_size and training.sequence_length"
    )
