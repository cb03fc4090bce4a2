"""Trainers by name, each answered by the framework that it runs on, with what it ships and what to check."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.checkpoint_files.peft_modules import ALL_LINEAR
from sizing.frameworks.framework import ShippedDefault
from sizing.spelling import known_spelling
from sizing.state.training import FrameworkName, TrainerName


@dataclass(frozen=True, slots=True)
class Trainer:
    """Trainer on top of a framework. `check`: what to give where its settings say so. `source`: where it was read.

    `keeps_base_as_trained` is as that of Framework. `raises_trained`: it casts all trained weights to fp32, those of
    modules that are trained whole beside adapters too. `adapter_targets`: modules that get adapters where none are
    named, if they are not PEFT's, read in `adapter_source`. `shares_expert_adapters`: modules of experts are adapted
    too, with one adapter for all experts of a rank, which files have once for each. `cuts_both_adapters`: tensor ranks
    divide both matrices of an adapter, of which one is whole on every rank elsewhere. `quantizes_experts`: routed
    experts of a base in 4 bits are in 4 bits too.
    """

    title: str
    framework: FrameworkName
    check: str
    source: str
    defaults: tuple[ShippedDefault, ...] = ()
    keeps_base_as_trained: bool = False
    raises_trained: bool = False
    adapter_targets: tuple[str, ...] = ()
    adapter_source: str = ""
    shares_expert_adapters: bool = False
    cuts_both_adapters: bool = False
    quantizes_experts: bool = False


_LINEAR_OF_MEGATRON = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")
"""Modules of Megatron-Core: queries, keys and values as one, the output of attention, gate and up as one, and down."""
_BF16 = "training.precision bf16"


def _recomputes(setting: str) -> ShippedDefault:
    """Return the default of a trainer that computes whole layers again unless its setting turns that off."""
    return ShippedDefault("training.recomputation", "full", setting, with_microbatch=True)


_DISTRIBUTED = (ShippedDefault("training.distributed_optimizer", True, "use_distributed_optimizer True"),)
TRAINERS: dict[TrainerName, Trainer] = {
    "verl": Trainer(
        "verl",
        "fsdp2",
        f"with model_dtype bfloat16 give {_BF16}, with its Megatron workers training.framework megatron",
        "verl, trainer/config/ppo_trainer.yaml: strategy fsdp, fsdp_config.model_dtype fp32; "
        "utils/checkpoint/fsdp_checkpoint_manager.py, save_checkpoint",
        (
            ShippedDefault(
                "training.adapters.save_base",
                True,
                "FSDPCheckpointManager, which saves the whole wrapped model",
                in_given_block=True,
                is_fixed=True,
            ),
            _recomputes("enable_gradient_checkpointing True"),
        ),
        keeps_base_as_trained=True,  # model_dtype is that of all weights, with lora_rank too
        adapter_targets=ALL_LINEAR,
        adapter_source="verl, trainer/config/model/hf_model.yaml, target_modules all-linear",
    ),
    "axolotl": Trainer(
        "axolotl",
        "transformers",
        "with FSDP give parallelism.shard_group, with DeepSpeed training.framework deepspeed, of a model "
        "trained whole in fp32 training.precision bf16-mixed",
        "axolotl, loaders/model.py: weights are loaded in torch_dtype, bfloat16 with bf16 auto or true",
        (
            ShippedDefault(
                "training.precision", "bf16", "bf16 auto, which loads the weights in bfloat16", beside="no adapters"
            ),
        ),
    ),
    "openrlhf": Trainer(
        "OpenRLHF",
        "deepspeed",
        "give parallelism.zero_stage, and the critic by training.reinforcement",
        "OpenRLHF, cli/train_ppo_ray.py: --zero_stage 2",
        (ShippedDefault("parallelism.zero_stage", 2, "--zero_stage 2"),),
        adapter_targets=ALL_LINEAR,
        adapter_source="OpenRLHF, cli/train_ppo_ray.py, --target_modules all-linear",
    ),
    "trl": Trainer(
        "TRL",
        "transformers",
        f"of a model trained whole in bfloat16 give {_BF16}, with FSDP parallelism.shard_group, with DeepSpeed "
        "training.framework deepspeed",
        "TRL 1.10, trainers on transformers' Trainer; sft_trainer.py, which casts adapters of a base in 4 or 8 bits",
        (
            ShippedDefault(
                "training.precision", "bf16", "adapters beside a quantised base in bfloat16", beside="a quantised base"
            ),
            ShippedDefault(
                "training.adapters.double_quant", False, "use_bnb_nested_quant False", beside="a base in 4 bits"
            ),
            _recomputes("gradient_checkpointing True"),
        ),
        keeps_base_as_trained=True,  # trainer/model_config.py and sft_trainer.py, dtype float32 of all weights
    ),
    "llamafactory": Trainer(
        "LLaMA-Factory",
        "transformers",
        f"with pure_bf16 give {_BF16}, with FSDP parallelism.shard_group, with DeepSpeed training.framework deepspeed",
        "LLaMA-Factory, train/sft/trainer.py, on transformers' Seq2SeqTrainer; model/adapter.py, "
        "cast_trainable_params_to_fp32",
        (_recomputes("disable_gradient_checkpointing False"),),
        raises_trained=True,
        adapter_targets=ALL_LINEAR,
        adapter_source="LLaMA-Factory, hparams/finetuning_args.py, lora_target all",
    ),
    "nemo": Trainer(
        "NeMo",
        "megatron",
        "NeMo AutoModel runs on fsdp2; without use_distributed_optimizer give training.distributed_optimizer no",
        "NeMo 2, lightning/pytorch/strategies/megatron_strategy.py; collections/llm/recipes/optim/adam.py",
        _DISTRIBUTED,
        adapter_targets=_LINEAR_OF_MEGATRON,
        adapter_source="NeMo 2, collections/llm/peft/lora.py, target_modules; NeMo 1 takes attention_qkv",
        cuts_both_adapters=True,  # NeMo 1, modules/common/megatron/adapters/parallel_adapters.py, ParallelLinearAdapter
    ),
    "megatron-bridge": Trainer(
        "Megatron-Bridge",
        "megatron",
        "without use_distributed_optimizer give training.distributed_optimizer no",
        "Megatron-Bridge, training/checkpointing.py, on Megatron-Core; recipes/utils/optimizer_utils.py",
        _DISTRIBUTED,
        adapter_targets=_LINEAR_OF_MEGATRON,
        adapter_source="Megatron-Bridge 0.6, peft/lora.py, target_modules",
        cuts_both_adapters=True,  # peft/utils.py, ParallelLinearAdapter
        shares_expert_adapters=True,  # share_expert_adapters; peft/utils.py, _apply_expert_axis_factory, since 0.5
    ),
    "ms-swift": Trainer(
        "ms-swift",
        "transformers",
        f"of a model trained whole in bfloat16 give {_BF16}, with Megatron-SWIFT training.framework megatron",
        "ms-swift, trainers on transformers' Trainer",
        (_recomputes("gradient_checkpointing True"),),
        adapter_targets=ALL_LINEAR,
        adapter_source="ms-swift, target_modules all-linear",
    ),
    "olmo-core": Trainer(
        "OLMo-core",
        "fsdp2",
        "with HSDP give parallelism.shard_group",
        "OLMo-core, distributed/checkpoint, on torch.distributed.checkpoint",
    ),
    "prime-rl": Trainer(
        "prime-rl",
        "fsdp2",
        "give checkpoint.mode async with --ckpt.save-async",
        "docs.primeintellect.ai/prime-rl/checkpointing: FSDP shards by DCP, optimizer, scheduler and progress",
    ),
    "torchtune": Trainer(
        "torchtune",
        "fsdp2",
        "of dtype fp32 give training.precision fp32, with enable_async_checkpointing checkpoint.format fsdp-sharded",
        "torchtune, recipes/configs: dtype bf16; FullModelHFCheckpointer, to which rank 0 gives a full state dict",
        (
            ShippedDefault("training.precision", "bf16", "dtype bf16, of weights and moments"),
            ShippedDefault("checkpoint.format", "full", "a full state dict, gathered on rank 0"),
        ),
    ),
    "unsloth": Trainer(
        "Unsloth",
        "transformers",
        f"of a model trained whole in bfloat16 give {_BF16}, of a base in 4 bits training.adapters.base_dtype nf4",
        "Unsloth, cards of its models: trained with TRL, whose SFTTrainer is transformers' Trainer",
        quantizes_experts=True,  # since 2026.6, unslothai/unsloth#4032; before, with transformers 4, by linear modules
    ),
    "slime": Trainer(
        "slime",
        "megatron",
        "with --train-backend fsdp give training.framework fsdp2",
        "slime, backends/megatron_utils/arguments.py: use_distributed_optimizer True, bf16 unless fp16",
        _DISTRIBUTED,
    ),
    "skyrl": Trainer(
        "SkyRL",
        "fsdp2",
        "with trainer.strategy megatron give training.framework megatron, with deepspeed training.framework deepspeed",
        "SkyRL, skyrl_train/config/ppo_base_config.yaml: trainer.strategy fsdp2, bf16 true",
        (_recomputes("trainer.gradient_checkpointing true"),),
        adapter_targets=ALL_LINEAR,
        adapter_source="SkyRL, skyrl_train/config/ppo_base_config.yaml, target_modules all-linear",
    ),
    "nemo-rl": Trainer(
        "NeMo RL",
        "fsdp2",
        "with policy.megatron_cfg.enabled give training.framework megatron",
        "docs.nvidia.com/nemo/rl, design-docs/training-backends: DTensor, which is FSDP2, and Megatron",
        adapter_targets=ALL_LINEAR,
        adapter_source="NeMo RL, examples/configs/sft.yaml, match_all_linear; the adapter of the head is not counted",
    ),
    "nemo-automodel": Trainer(
        "NeMo AutoModel",
        "fsdp2",
        f"of weights in bfloat16 give {_BF16}, with distributed.strategy ddp training.framework ddp",
        "NeMo AutoModel, components/distributed/config.py: FSDP2Config, MegatronFSDPConfig, DDPConfig",
        adapter_targets=ALL_LINEAR,
        adapter_source="NeMo AutoModel, components/_peft/module_matcher.py, *_proj",
    ),
    "areal": Trainer(
        "AReaL",
        "fsdp2",
        "with megatron in allocation_mode give training.framework megatron, of dtype float32 training.precision "
        "bf16-mixed",
        "AReaL, api/cli_args.py: TrainEngineConfig.dtype bfloat16, of the parameters",
        (ShippedDefault("training.precision", "bf16", "dtype bfloat16, of the parameters"),),
    ),
    "litgpt": Trainer(
        "LitGPT",
        "fsdp2",
        f"with bf16-true as its precision give {_BF16}",
        "LitGPT, finetune/full.py: FSDPStrategy with state_dict_type full; model, optimizer and scheduler are saved",
        (ShippedDefault("checkpoint.format", "full", "state_dict_type full"),),
    ),
    "composer": Trainer(
        "Composer",
        "fsdp2",
        "with state_dict_type sharded give checkpoint.format fsdp-sharded",
        "docs.mosaicml.com, composer.utils.FSDPConfig: state_dict_type full, as LLM Foundry takes it too",
        (ShippedDefault("checkpoint.format", "full", "state_dict_type full"),),
    ),
    "gpt-neox": Trainer(
        "GPT-NeoX",
        "deepspeed",
        "give parallelism.zero_stage as zero_optimization.stage says",
        "GPT-NeoX, a library on Megatron's layers and DeepSpeed's engine, which saves",
    ),
    "megatron-deepspeed": Trainer(
        "Megatron-DeepSpeed",
        "deepspeed",
        "give parallelism.zero_stage",
        "Megatron-DeepSpeed, checkpointing.py, which saves by DeepSpeed's engine",
    ),
    "peft": Trainer(
        "PEFT",
        "transformers",
        "give training.adapters.rank for LoRA, with FSDP parallelism.shard_group, with DeepSpeed training.framework "
        "deepspeed",
        "PEFT, docs: its models are trained by transformers' Trainer",
    ),
}
"""Trainers by the names that people give as training.framework."""

COLOCATED: frozenset[TrainerName] = frozenset({"verl", "skyrl", "nemo-rl"})
"""Trainers that make samples on the GPUs that train, unless they are told otherwise.

Source: verl b178a3cd56f5, trainer/config/ppo_trainer.yaml, hybrid_engine; SkyRL, ppo_base_config.yaml, colocate_all;
NeMo RL, examples/configs/grpo_math_1B.yaml, generation.colocated.enabled.
"""


def trainer_named(name: object) -> TrainerName | None:
    """Return the name of a trainer in any spelling; None for another.

    >>> trainer_named("LLaMA-Factory"), trainer_named("torchtitan")
    ('llamafactory', None)
    """
    spelled = known_spelling(name, TRAINERS) if isinstance(name, str) else None
    return next((each for each in TRAINERS if each == spelled), None)


def trainer_on(framework: object, name: object) -> Trainer | None:
    """Return the trainer of a name if it runs on a framework; None for unknown names, or for another framework."""
    return next((each for own, each in TRAINERS.items() if own == name and each.framework == framework), None)
