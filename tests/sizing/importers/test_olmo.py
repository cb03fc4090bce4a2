"""OLMo and OLMo-core: scenarios of public configurations, of which only keys and values stand here."""

from __future__ import annotations

from typing import Any

import yaml

from sizing.model import Model
from sizing.model.model import resolve
from tests.sizing.importers.imports import fields_of, import_texts

ALWAYS = {"storage.preset", "training.step_seconds"}

OLMO2_7B: dict[str, Any] = {  # allenai/OLMo:configs/official-1124/OLMo2-7B-stage1.yaml
    "model": {
        "d_model": 4096,
        "n_heads": 32,
        "n_layers": 32,
        "mlp_hidden_size": 22016,
        "weight_tying": False,
        "alibi": False,
        "rope": True,
        "include_bias": False,
        "block_type": "sequential",
        "layer_norm_type": "rms",
        "layer_norm_with_affine": True,
        "bias_for_layer_norm": False,
        "attention_layer_norm": True,
        "norm_after": True,
        "activation_type": "swiglu",
        "max_sequence_length": 4096,
        "vocab_size": 100_278,
        "embedding_size": 100_352,
    },
    "optimizer": {"name": "adamw", "learning_rate": 3e-4},
    "save_interval": 1000,
    "save_interval_ephemeral": 250,
    "save_num_checkpoints_to_keep": 0,
    "sharded_checkpointer": "olmo_core",
    "global_train_batch_size": 1024,
    "device_train_microbatch_size": 2,
    "precision": "amp_bf16",
    "fsdp": {"wrapping_strategy": "by_block_and_size", "precision": "mixed"},
    "compile": None,
}

OLMO_CORE: dict[str, Any] = {
    "_CLASS_": "olmo_core.internal.experiment.ExperimentConfig",
    "run_name": "r",
    "model": {
        "_CLASS_": "olmo_core.nn.transformer.config.TransformerConfig",
        "d_model": 4096,
        "vocab_size": 100_352,
        "n_layers": 32,
        "dtype": "float32",
        "block": {
            "name": "reordered_norm",
            "attention": {
                "n_heads": 32,
                "n_kv_heads": None,
                "bias": False,
                "qk_norm": {"name": "rms", "eps": 1e-6, "bias": False},
                "rope": {"name": "default", "theta": 500_000},
            },
            "feed_forward": {"hidden_size": 11_008, "bias": False},
            "layer_norm": {"name": "rms", "eps": 1e-6, "bias": False},
        },
        "lm_head": {"bias": False, "layer_norm": {"name": "rms"}},
    },
    "train_module": {
        "rank_microbatch_size": 8192,
        "max_sequence_length": 4096,
        "optim": {"_CLASS_": "olmo_core.optim.adamw.SkipStepAdamWConfig", "lr": 3e-4, "betas": [0.9, 0.95]},
        "dp_config": {"name": "hsdp", "param_dtype": "bfloat16", "reduce_dtype": "float32", "shard_degree": 32},
        "ac_config": {"mode": "full"},
        "compile_model": True,
    },
    "data_loader": {"global_batch_size": 4_194_304},
    "trainer": {
        "save_folder": "/x",
        "callbacks": {
            "checkpointer": {
                "save_interval": 1000,
                "ephemeral_save_interval": 250,
                "save_async": True,
                "max_checkpoints": 3,
            },
            "wandb": {"enabled": False},
        },
    },
}


def test_the_yaml_of_olmo_becomes_its_scenario() -> None:
    report = import_texts(yaml.safe_dump(OLMO2_7B), num_gpus=512, name="OLMo2-7B-stage1.yaml")
    expected = {
        "training.framework": "fsdp2",
        "parallelism.data": 512,
        "training.precision": "bf16-mixed",
        "training.optimizer": "adamw",
        "training.global_batch_size": 1024,
        "training.recomputation": "none",
        "checkpoint.interval_steps": 250,
        "checkpoint.format": "fsdp-sharded",
        "retention.keep_last": None,
    }
    assert fields_of(report, expected) == expected
    assert {each.field for each in report.needed} - ALWAYS == {"retention.keep_last"}
    assert not report.not_understood
    described = resolve(Model.model_validate(report.scenario["model"]))
    assert described.num_parameters == resolve(Model(preset="olmo-2-7b")).num_parameters


def test_hybrid_sharding_of_olmo_has_as_many_groups_as_replicas() -> None:
    fsdp = {"sharding_strategy": "HYBRID_SHARD", "hybrid_sharding_num_model_replicas": 16, "precision": "mixed"}
    report = import_texts(yaml.safe_dump({**OLMO2_7B, "fsdp": fsdp}), num_gpus=512, name="a.yaml")
    assert report.scenario["parallelism"] == {"data": 512, "shard_group": 32}


def test_the_configuration_that_olmo_core_saves_becomes_its_scenario() -> None:
    report = import_texts(yaml.safe_dump(OLMO_CORE), num_gpus=1024, name="config.json")
    expected = {
        "parallelism.data": 1024,
        "parallelism.shard_group": 32,
        "training.precision": "bf16-mixed",
        "training.optimizer": "adamw",
        "training.sequence_length": 4096,
        "training.micro_batch_size": 2,
        "training.global_batch_size": 1024,
        "training.recomputation": "full",
        "training.compile": True,
        "checkpoint.interval_steps": 250,
        "checkpoint.mode": "async",
        "retention.keep_last": 4,  # three for good and the temporary one
    }
    assert fields_of(report, expected) == expected
    assert {each.field for each in report.needed} <= ALWAYS
    assert not report.not_understood
    assert report.scenario["model"] == import_texts(yaml.safe_dump(OLMO2_7B), name="a.yaml").scenario["model"]


def test_what_a_script_of_olmo_core_sets_in_python_is_asked_for() -> None:
    flags = "--train_module.optim.lr=6e-3 --trainer.callbacks.checkpointer.save_interval=500 --trainer.save_folder=/x"
    report = import_texts(f"torchrun --nproc-per-node=8 src/examples/llm/train.py run01 {flags}")
    asked = {each.field for each in report.needed}
    assert {"model.preset", "training.precision", "training.optimizer", "parallelism.shard_group"} <= asked
    assert report.scenario["checkpoint"]["interval_steps"] == 500
