"""verl: scenarios of public scripts, by their keys and values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sizing.importers.imports import fields_of, import_texts

_PPO = "python3 -m verl.trainer.main_ppo data.max_prompt_length=1024 data.max_response_length=1024"
_ACTOR = "actor_rollout_ref.actor"

SCRIPTS: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "volcengine/verl@b178a3cd56f5:examples/ppo_trainer/run_qwen2-7b_seq_balance.sh": (
        f"{_PPO} algorithm.adv_estimator=gae actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct "
        f"{_ACTOR}.use_dynamic_bsz=True critic.model.path=Qwen/Qwen2-7B-Instruct "
        "trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.save_freq=20",
        {
            "model.preset": "qwen2-7b",
            "cluster.num_gpus": 8,
            "training.framework": "fsdp2",
            "training.precision": "bf16-mixed",
            "training.optimizer": "adamw",
            "training.micro_batch_size": None,
            # Qwen2-7B has 7,615,616,512 parameters, of which its head has 152,064 x 3,584; a critic's has 3,584 + 1.
            "training.reinforcement.critic_parameters": 7_070_622_721,
            "parallelism.data": 8,
            "checkpoint.interval_steps": 20,
            "checkpoint.mode": "sync",
        },
        {"checkpoint.format", "retention.keep_last", "training.step_seconds"},
    ),
    "volcengine/verl@b178a3cd56f5:examples/grpo_trainer/run_qwen2-7b_math_megatron.sh": (
        f"{_PPO} --config-name='ppo_megatron_trainer.yaml' algorithm.adv_estimator=grpo "
        f"actor_rollout_ref.model.path=$HOME/models/Qwen2-7B-Instruct {_ACTOR}.ppo_micro_batch_size_per_gpu=4 "
        f"{_ACTOR}.megatron.pipeline_model_parallel_size=2 {_ACTOR}.megatron.tensor_model_parallel_size=2 "
        "trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.save_freq=20 trainer.max_actor_ckpt_to_keep=2",
        {
            "model.preset": "qwen2-7b",
            "training.framework": "megatron",
            "training.precision": "bf16-mixed",
            "training.optimizer": "adam",
            "training.distributed_optimizer": True,
            "training.reinforcement.critic_parameters": None,
            "training.sequence_length": 2048,
            "parallelism.tensor": 2,
            "parallelism.pipeline": 2,
            "parallelism.data": 2,
            "retention.keep_last": 2,
        },
        {"checkpoint.format", "training.step_seconds"},
    ),
    "volcengine/verl@b178a3cd56f5:examples/grpo_trainer/run_deepseek671b_math_megatron_96gb.sh": (
        f"{_PPO} --config-name='ppo_megatron_trainer.yaml' algorithm.adv_estimator=grpo "
        f"actor_rollout_ref.model.path=$LLM {_ACTOR}.strategy=megatron "
        f"{_ACTOR}.megatron.pipeline_model_parallel_size=12 {_ACTOR}.megatron.tensor_model_parallel_size=8 "
        f"{_ACTOR}.megatron.expert_model_parallel_size=8 {_ACTOR}.megatron.expert_tensor_parallel_size=1 "
        f"+{_ACTOR}.megatron.override_transformer_config.num_layers_in_last_pipeline_stage=6 "
        f"+{_ACTOR}.optim.override_optimizer_config.optimizer_cpu_offload=True "
        f"+{_ACTOR}.optim.override_optimizer_config.optimizer_offload_fraction=0.5 "
        f"{_ACTOR}.checkpoint.async_save=True trainer.n_gpus_per_node=8 trainer.nnodes=12 trainer.save_freq=100",
        {
            "cluster.num_gpus": 96,
            "parallelism.tensor": 8,
            "parallelism.pipeline": 12,
            "parallelism.expert": 8,
            "parallelism.expert_tensor": 1,
            "parallelism.data": 1,
            "parallelism.last_stage_layers": 6,
            "training.offload.optimizer": "host",
            "training.offload.optimizer_fraction": 0.5,
            "checkpoint.mode": "async",
        },
        {"checkpoint.format", "training.step_seconds", "model.preset", "retention.keep_last"},
    ),
    "volcengine/verl@b178a3cd56f5:examples/tuning/70b/qwen2-72b_grpo-lora_8_h100_fsdp_vllm.sh": (
        f"{_PPO} algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2.5-72B-Instruct "
        f"actor_rollout_ref.model.lora_rank=32 actor_rollout_ref.model.target_modules=all-linear "
        f"{_ACTOR}.ulysses_sequence_parallel_size=2 {_ACTOR}.fsdp_config.fsdp_size=4 "
        f"{_ACTOR}.fsdp_config.model_dtype=bfloat16 trainer.n_gpus_per_node=8 trainer.nnodes=1 trainer.save_freq=-1",
        {
            "model.preset": "qwen2.5-72b",
            "training.precision": "bf16",
            "training.adapters.rank": 32,
            "training.adapters.save_base": True,
            "parallelism.context": 2,
            "parallelism.data": 4,
            "parallelism.shard_group": 4,
            "checkpoint.interval_steps": None,
        },
        {"checkpoint.format", "training.step_seconds", "checkpoint.interval_seconds", "retention.keep_last"},
    ),
    "the same with the weights in verl's own dtype": (
        f"{_PPO} algorithm.adv_estimator=grpo actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct "
        f"actor_rollout_ref.model.lora_rank=64 actor_rollout_ref.model.target_modules=all-linear "
        f"trainer.n_gpus_per_node=8 trainer.nnodes=2 trainer.save_freq=20 trainer.max_actor_ckpt_to_keep=2",
        {
            "training.precision": "bf16-mixed",
            "training.adapters.base_dtype": "fp32",
            "training.adapters.save_base": True,
        },
        {"checkpoint.format", "training.step_seconds"},
    ),
    "volcengine/verl@b178a3cd56f5:examples/sft/gsm8k/run_qwen_05_sp2.sh": (
        "torchrun --nnodes=1 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.train_files=a.parquet "
        "data.micro_batch_size_per_gpu=4 data.max_length=1024 optim.lr=1e-4 "
        "model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct trainer.experiment_name=x "
        "ulysses_sequence_parallel_size=2 trainer.save_freq=50 trainer.max_ckpt_to_keep=3",
        {
            "model.preset": "qwen2.5-0.5b",
            "cluster.num_gpus": 8,
            "training.framework": "fsdp2",
            "training.precision": "bf16-mixed",
            "training.micro_batch_size": 4,
            "parallelism.context": 2,
            "parallelism.data": 4,
            "checkpoint.interval_steps": 50,
            "retention.keep_last": 3,
        },
        {"checkpoint.format", "training.step_seconds"},
    ),
}


@pytest.mark.parametrize(("text", "expected", "asked"), SCRIPTS.values(), ids=list(SCRIPTS))
def test_a_script_becomes_the_fields_that_it_gives(text: str, expected: dict[str, Any], asked: set[str]) -> None:
    report = import_texts(text)
    assert fields_of(report, expected) == expected
    assert {each.field for each in report.needed} - {"storage.preset"} == asked


def test_a_yaml_with_references_is_followed() -> None:
    report = import_texts(
        "actor_rollout_ref:\n  model: {path: Qwen/Qwen2-7B-Instruct}\n"
        "  actor: {strategy: fsdp2, ulysses_sequence_parallel_size: 2}\n"
        "critic: {model: {path: '${actor_rollout_ref.model.path}'}, enable: true}\n"
        "algorithm: {adv_estimator: gae}\ntrainer: {n_gpus_per_node: 8, nnodes: 2, save_freq: 10}\n",
        name="ppo.yaml",
    )
    expected = {"training.reinforcement.critic_parameters": 7_070_622_721, "parallelism.data": 8}
    assert fields_of(report, expected) == expected


@pytest.mark.parametrize(
    ("strategy", "dtype"),
    [
        ("model.strategy=fsdp", "fp32"),
        ("model.strategy=fsdp2 model.fsdp_config.model_dtype=bf16", None),
        ("model.strategy=megatron", None),
    ],
)
def test_weights_beside_the_shards_of_fsdp_have_the_dtype_of_the_shards(strategy: str, dtype: str | None) -> None:
    """A run of Seed-OSS-36B-Base has 135 GiB of them, and the model of the hub 68: verl-project/verl, issue 3318."""
    report = import_texts(
        "torchrun --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.train_files=a.parquet trainer.experiment_name=x "
        f"model.partial_pretrain=ByteDance-Seed/Seed-OSS-36B-Base {strategy} "
        "trainer.checkpoint.save_contents=[model,optimizer,extra,hf_model]"
    )
    expected = {"checkpoint.export.every": 1, "checkpoint.export.dtype": dtype}
    assert fields_of(report, expected) == expected


def test_a_config_of_its_own_is_asked_for() -> None:
    report = import_texts(
        f"{_PPO} --config-name=my_grpo algorithm.adv_estimator=grpo trainer.nnodes=2 trainer.save_freq=5"
    )
    assert "training.framework" in {each.field for each in report.needed}


@pytest.mark.parametrize("of_actor", ["", "actor_rollout_ref.model.lora_rank=32"])
def test_adapters_of_the_critic_are_trained_alone(of_actor: str) -> None:
    """Rank 32 beside all linear modules of Qwen2.5-0.5B, whose layers have queries of 896 x 896 and keys of 128 x 896."""
    report = import_texts(
        f"{_PPO} algorithm.adv_estimator=gae actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct trainer.nnodes=1 "
        f"critic.model.path=Qwen/Qwen2.5-0.5B-Instruct trainer.save_freq=5 critic.model.lora_rank=32 {of_actor}"
    )
    of_attention, of_feed_forward = 2 * (896 + 896) + 2 * (896 + 128), 3 * (896 + 4864)
    expected = {
        "training.reinforcement.critic_parameters": 24 * 32 * (of_attention + of_feed_forward),
        # 494,032,768 parameters with tied embeddings, of which none is the head's: a head of 896 + 1 is added.
        "training.reinforcement.saved_frozen_parameters": 494_032_768 + 897,
    }
    assert fields_of(report, expected) == expected


def test_that_engine_and_reference_model_on_the_same_gpus_are_not_counted_is_told() -> None:
    settings = {
        "actor_rollout_ref.rollout.gpu_memory_utilization": "0.6",
        "actor_rollout_ref.rollout.free_cache_engine": "False",
        "actor_rollout_ref.ref.fsdp_config.param_offload": "True",
    }
    report = import_texts(f"{_PPO} algorithm.adv_estimator=grpo {' '.join(map('='.join, settings.items()))}")
    notes = {row.setting: row.note for row in report.not_understood}
    assert all("on the same GPUs, whose memory is not counted" in notes[name] for name in settings)


@pytest.mark.parametrize(
    ("words", "kept", "why"),
    [
        ("trainer.max_actor_ckpt_to_keep=3 trainer.max_critic_ckpt_to_keep=3", 3, None),
        ("trainer.max_actor_ckpt_to_keep=3 trainer.max_critic_ckpt_to_keep=1", 3, "differ: the larger counts for both"),
        ("trainer.max_actor_ckpt_to_keep=1 trainer.max_critic_ckpt_to_keep=4", 4, "differ: the larger counts for both"),
        ("trainer.max_actor_ckpt_to_keep=3", 3, "all checkpoints of the critic are kept"),
        ("trainer.max_critic_ckpt_to_keep=3", None, "all checkpoints of the run are kept"),
        ("trainer.remove_previous_ckpt_in_save=true trainer.max_actor_ckpt_to_keep=3", 1, None),
        ("critic.enable=false trainer.max_actor_ckpt_to_keep=3 trainer.max_critic_ckpt_to_keep=1", 3, None),
    ],
)
def test_actor_and_critic_each_have_a_limit_of_checkpoints(words: str, kept: int | None, why: str | None) -> None:
    report = import_texts(
        f"{_PPO} algorithm.adv_estimator=gae actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct trainer.nnodes=1 "
        f"critic.model.path=Qwen/Qwen2-7B-Instruct trainer.save_freq=5 {words}"
    )
    assert fields_of(report, ["retention.keep_last"]) == {"retention.keep_last": kept}
    said = {each.field: each.why for each in report.needed}.get("retention.keep_last", "")
    assert (why or "") in said
    assert bool(said) is (why is not None)
    is_ignored = "trainer.max_critic_ckpt_to_keep" in {row.setting for row in report.no_matter}
    assert is_ignored is ("critic.enable=false" in words)


@pytest.mark.parametrize(
    ("words", "told", "is_asked"),
    [
        ("", set(), False),
        ("critic.strategy=fsdp2", {"critic.strategy"}, False),
        ("actor_rollout_ref.actor.strategy=fsdp2 critic.strategy=fsdp2", set(), False),
        ("critic.model.fsdp_config.model_dtype=bfloat16", {"critic.model.fsdp_config.model_dtype"}, False),
        ("actor_rollout_ref.actor.fsdp_config.model_dtype=bfloat16", set(), True),
        ("critic.optim.optimizer=SGD", {"critic.optim.optimizer"}, False),
        ("critic.model.lora_rank=32", set(), False),
        ("critic.model.lora.rank=32", {"critic.model.lora.rank"}, True),
        ("actor_rollout_ref.model.lora_rank=32", set(), False),
        ("critic.ulysses_sequence_parallel_size=2", {"critic.ulysses_sequence_parallel_size"}, False),
    ],
)
def test_what_the_critic_has_otherwise_than_the_actor_is_told(words: str, told: set[str], is_asked: bool) -> None:
    report = import_texts(
        f"{_PPO} algorithm.adv_estimator=gae actor_rollout_ref.model.path=Qwen/Qwen2-7B-Instruct trainer.nnodes=1 "
        f"critic.model.path=Qwen/Qwen2.5-0.5B-Instruct trainer.save_freq=5 {words}"
    )
    assert {row.setting for row in report.not_understood} == told
    field = "training.reinforcement.critic_parameters"
    assert (field in {each.field for each in report.needed}) is is_asked
    assert any("another model than the actor" in row.note for row in report.understood if row.field == field)
