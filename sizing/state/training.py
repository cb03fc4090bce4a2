"""The `training` block of a Scenario: it decides what the framework keeps, and so what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, Field, model_validator

from sizing.errors import broken_rule
from sizing.spelling import AnySpelling, fitting, known_spelling, nearest
from sizing.state.gradient_compression import GradientCompression
from sizing.state.offload import Offload
from sizing.state.optimizers import OPTIMIZERS, Dtype, Optimizer, spelled_optimizer
from sizing.state.reinforcement import Reinforcement
from sizing.state.scaled_dtypes import QUANTIZED_BYTES, QuantizedDtype, ScaledDtype
from sizing.strict_model import InputModel
from sizing.units import OrText, PositiveSeconds, parse_count

FrameworkName = Literal[
    "megatron",
    "fsdp2",
    "torchtitan",
    "deepspeed",
    "maxtext",
    "transformers",
    "accelerate",
    "lightning",
    "ddp",
]
TrainerName = Literal[
    "verl",
    "axolotl",
    "openrlhf",
    "trl",
    "llamafactory",
    "nemo",
    "megatron-bridge",
    "ms-swift",
    "olmo-core",
    "prime-rl",
    "torchtune",
    "unsloth",
    "slime",
    "skyrl",
    "nemo-rl",
    "nemo-automodel",
    "areal",
    "litgpt",
    "composer",
    "gpt-neox",
    "megatron-deepspeed",
    "peft",
]
"""Trainers on top of a framework, which `frameworks/trainers.py` describes."""
Precision = Literal["bf16-mixed", "fp16-mixed", "fp8-mixed", "mxfp8-mixed", "nvfp4-mixed", "bf16", "fp32"]
Recomputation = Literal["none", "selective", "full"]
"""Activations that the backward pass computes again: none, part of each layer, or whole layers. The part is that of
`RecomputeModule`; in torchtitan it is all except the results of attention, of reduce-scatters and of every other matrix
product."""
RecomputeModule = Literal["core-attn", "layernorm", "mla-up-proj", "moe-act"]
"""Parts of a layer that selective recomputation computes again: scores of attention, norms, up-projections of latents,
activation functions of routed experts. Source: Megatron-LM, --recompute-modules, which begins with core_attn alone."""
Attention = Literal["flash", "eager"]
"""Kernel of attention: in tiles, as FlashAttention and cuDNN do, or with the scores of all pairs of tokens."""
Loss = Literal["eager", "compiled", "vocab-parallel", "fused", "chunked"]
"""Computation of cross-entropy from the logits; `sizing/training/kernels.py` states what each holds of them."""
ExpertDispatch = Literal["all-to-all", "deepep"]
"""Exchange of tokens with expert ranks: each goes to each of its experts in bf16; or, as DeepEP and HybridEP send them,
once to each node with such experts, in 8 bits on its way there where matrix products are."""
Schedule = Literal[
    "gpipe",
    "1f1b",
    "interleaved",
    "pipedream",
    "pipedream-2bw",
    "pipemare",
    "chimera",
    "zb-h1",
    "zb-h2",
    "zb-v",
    "dualpipe",
]
"""Orders of microbatches; `training/schedules/` has the rules of each."""
FOLDED_SCHEDULES: frozenset[Schedule] = frozenset({"zb-v"})
"""Schedules that lay the model's chunks out in a V: the first stage has the first chunk and the last.

Source: Qi et al. 2023, arXiv 2401.10241, section 6; torch.distributed.pipelining, generate_stage_to_rank_mapping, "v".
"""

OF_A_STEP = (
    "global_batch_size",
    "recomputation",
    "recomputed_layers",
    "attention",
    "loss",
    "compile",
    "achieved",
    "schedule",
    "sequence_parallel",
    "expert_dispatch",
)
"""Fields that describe a step, and need micro_batch_size."""


class SavedState(InputModel):
    """Dtypes to save instead of the framework's habit; null means that the part is not saved."""

    weights: Dtype | ScaledDtype | None = Field(
        None,
        description="Dtype of saved weights; null leaves them out of the checkpoint. "
        "Formats with scales (fp8-block, mxfp8, mxfp4, nvfp4) count them, and 2 bytes for each value outside the "
        "matrices of layers. Default: the framework's.",
    )
    master: Dtype | None = Field(
        None, description="Dtype of the saved master copy of the weights; null leaves it out. Default: the framework's."
    )
    moments: Dtype | None = Field(
        None, description="Dtype of the optimizer's saved moments; null leaves them out. Default: the framework's."
    )
    ema: Dtype | None = Field(
        None, description="Dtype of a saved moving average of the weights (EMA). Default: none is saved."
    )
    weights_alone: bool = Field(
        False,
        description="Whether weights alone are saved, without master copy and moments, as save_only_model of "
        "Hugging Face's Trainer says. Training cannot go on from it as before. Default: no.",
    )


_Names = Annotated[
    tuple[Annotated[str, Field(max_length=60)], ...],
    Field(max_length=50),
    BeforeValidator(lambda names: [each.strip() for each in names.split(",")] if isinstance(names, str) else names),
]
"""Input: a list of names."""


BaseDtype = Literal["nf4", "fp4", "int8", "fp8-block", "mxfp4", "bf16", "fp16", "fp32"]
"""Dtypes of the frozen weights under adapters. bitsandbytes has nf4, fp4 and int8; the next two are those of published
weights, which `scaled_dtypes` describes."""
DOUBLE_QUANTIZED: Mapping[BaseDtype, QuantizedDtype] = {"nf4": "nf4-double", "fp4": "fp4-double"}
"""Dtypes whose scales can be quantised again, with those that they are then."""
_BASE_DTYPES = {"4bit": "nf4", "int4": "nf4", "4": "nf4", "8bit": "int8", "8": "int8", "fp8": "fp8-block"} | {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "none": None,
}
"""Names that trainers' configs have for them."""


def spelled_base_dtype(value: object) -> object:
    """Return the dtype of a base that a trainer's config names in its own way; other values as they are.

    >>> spelled_base_dtype("torch.bfloat16"), spelled_base_dtype("4-bit"), spelled_base_dtype("nf4")
    ('bf16', 'nf4', 'nf4')
    """
    return _BASE_DTYPES.get(str(value).lower().replace("-", "").removeprefix("torch."), value)


AdapterBias = Literal["none", "all", "lora_only"]
"""Biases of a frozen model that PEFT trains beside adapters, by the words of its `bias`."""


class Adapters(InputModel):
    """Low-rank adapters (LoRA): beside each matrix A in x rank and rank x out, the matrix itself frozen."""

    rank: Annotated[int, Field(ge=1, le=10_000)] = Field(
        description="Inner dimension of the two matrices of an adapter, r in Hu et al. 2021."
    )
    tensors: OrText[_Names] | None = Field(
        None,
        description="Matrices that get an adapter, by name, by the beginning of the name, or by PEFT's names of "
        "modules (q_proj, c_attn, all-linear); also as a text with commas. With all-linear the model must be dense. "
        "Default: queries and values, as PEFT's of most model types; all of attention with latents or beside layers of "
        "a state space, whose input projection it is in a model without attention. NeMo and Megatron-Bridge take "
        "linear_qkv, linear_proj, linear_fc1, linear_fc2, which in Megatron-Bridge are those of experts too.",
    )
    base_dtype: Annotated[
        AnySpelling[BaseDtype] | None,
        BeforeValidator(spelled_base_dtype),
    ] = Field(
        None,
        description="Dtype of the frozen weights, on the GPU and where they are saved (QLoRA: nf4; load_in_8bit: "
        "int8). In 8 and 4 bits matrices of layers alone are, with their scales; embeddings, head, norms, biases, "
        "routers and by default routed experts keep 16 bits. Default: 16 bits in mixed precision, as trainers load "
        "them; that of trained weights in torchtitan, MaxText and verl, and in other precisions.",
    )
    double_quant: bool | None = Field(
        None,
        description="Whether the scales of nf4 and fp4 are quantised again (bnb_4bit_use_double_quant): 4.13 bits a "
        "value with it, 4.5 without. Default: yes, as in QLoRA.",
    )
    quantize_experts: bool | None = Field(
        None,
        description="Whether routed experts are in the 8 or 4 bits of base_dtype too (axolotl's "
        "quantize_moe_experts). Default: no, as transformers 5 keeps the experts of a layer as one parameter, which "
        "bitsandbytes leaves in 16 bits; yes in Unsloth.",
    )
    dora: bool = Field(
        False,
        description="Whether a magnitude for each output of an adapted matrix is trained too (DoRA, PEFT's use_dora; "
        "Liu et al. 2024, arXiv 2402.09353). Default: no.",
    )
    modules_to_save: OrText[_Names] | None = Field(
        None,
        description="Modules that are trained whole beside the adapters, by PEFT's names (embed_tokens, lm_head, norm) "
        "or those of tensors. Each is a copy that is saved with the adapters; a tied head is a copy of its own. From a "
        "base in bf16 it is in bf16 too, unless FSDP raises it to fp32. A text has commas between names. Default: "
        "none.",
    )
    bias: AnySpelling[AdapterBias] = Field(
        "none",
        description="Biases of the model that are trained beside the adapters: none, all, or lora_only, those of "
        "adapted matrices (PEFT's bias). Default: none.",
    )
    save_base: bool = Field(
        False,
        description="Whether the frozen weights are saved too. A model into which adapters are merged at each save is "
        "an export (checkpoint.export). Default: no, a LoRA checkpoint holds the adapters alone.",
    )

    @model_validator(mode="after")
    def _scales_can_be_quantised(self) -> Self:
        if self.double_quant is not None and self.base_dtype not in DOUBLE_QUANTIZED:
            raise broken_rule(
                f"has double_quant with base_dtype {self.base_dtype or 'not given'}",
                "give base_dtype nf4 or fp4, or remove double_quant",
            )
        if self.quantize_experts is not None and self.base_dtype not in QUANTIZED_BYTES:
            raise broken_rule(
                f"has quantize_experts with base_dtype {self.base_dtype or 'not given'}",
                "give base_dtype nf4, fp4 or int8, or remove quantize_experts",
            )
        return self


AchievedFraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
OverlapFraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Overlap(InputModel):
    """How much of each exchange between ranks computing hides, as far as there is computing to hide it behind."""

    gradients: OverlapFraction | None = Field(
        None,
        description="Fraction of the exchange of gradients and weights with data-parallel ranks. It hides behind all "
        "computing where layers are gathered, else behind the last backward and the first forward pass (Megatron-LM's "
        "--overlap-grad-reduce and --overlap-param-gather). Default: 1 with FSDP and ZeRO 3, else 0.",
    )
    tensor: OverlapFraction | None = Field(
        None,
        description="Fraction of the exchange with tensor ranks, behind the matrix products beside it (Megatron-LM's "
        "--tp-comm-overlap, torch's asynchronous tensor parallelism). Some 0.5 where it is on. Default: 0.",
    )
    pipeline: OverlapFraction | None = Field(
        None,
        description="Fraction of the sends between pipeline stages, behind the next microbatch. Default: 1 with "
        "schedule interleaved in Megatron-LM and with dualpipe, else 0.",
    )
    expert: OverlapFraction | None = Field(
        None,
        description="Fraction of the exchange of tokens with expert ranks, behind the computing of another microbatch "
        "(Megatron-LM's --overlap-moe-expert-parallel-comm, DualPipe). Default: 1 with dualpipe, else 0.",
    )
    context: OverlapFraction | None = Field(
        None,
        description="Fraction of the exchange of keys and values with context ranks, behind attention. Default: 1.",
    )


class Achieved(InputModel):
    """What a GPU and its links achieve of their peak rates, by kind of work."""

    matrices: AchievedFraction | None = Field(
        None, description="Fraction of peak in matrix products of layers and head. Default: by GPU."
    )
    experts: AchievedFraction | None = Field(
        None, description="Fraction of peak in the grouped matrix products of experts. Default: by GPU."
    )
    attention: AchievedFraction | None = Field(
        None, description="Fraction of peak in the products of queries, keys and values. Default: by GPU."
    )
    memory: AchievedFraction | None = Field(
        None, description="Fraction of the memory bandwidth where that is the limit, as in norms. Default: by GPU."
    )
    links: AchievedFraction | None = Field(
        None, description="Fraction of the bandwidth between the GPUs of a node. Default: 0.67."
    )
    network: AchievedFraction | None = Field(None, description="Fraction of the line rate between nodes. Default: 0.8.")
    overlap: OverlapFraction | Overlap | None = Field(
        None,
        description="Fraction that computing hides of each exchange between ranks; a number alone is that of the "
        "gradients. Default: as framework and schedule hide it.",
    )

    @property
    def overlaps(self) -> Overlap:
        """Fractions by exchange."""
        if isinstance(self.overlap, Overlap):
            return self.overlap
        return Overlap(gradients=self.overlap)


_NAMES_OF_LIBRARIES: dict[str, str] = {
    "pytorch": "fsdp2 or ddp",
    "torch": "fsdp2 or ddp",
    "fsdp": "fsdp2",
    "huggingface": "transformers",
    "hf": "transformers",
    "trainer": "transformers",
    "hf-trainer": "transformers",
    "hugging-face-trainer": "transformers",
    "jax": "maxtext",
    "llm-foundry": "composer",
}
"""What who names a library may mean."""


def refuse_unknown_framework(value: object) -> object:
    """Refuse a name that is like that of no framework, with what to give for another trainer."""
    frameworks, trainers = get_args(FrameworkName), get_args(TrainerName)
    if isinstance(value, str) and (library := known_spelling(value, _NAMES_OF_LIBRARIES)):
        raise broken_rule("must be a known name", f"did you mean {_NAMES_OF_LIBRARIES[library]}")
    if not isinstance(value, str) or known_spelling(value, frameworks) or fitting(value, frameworks):
        return value
    if alike := nearest(value, frameworks + trainers, max_names=1, min_alike=0.7):
        raise broken_rule("must be a known name", f"did you mean {alike[0]}")
    remedy = f"give what it runs on, of {', '.join(frameworks)}; trainers are {', '.join(trainers)}"
    raise broken_rule("must be a known name", remedy)


class Training(InputModel):
    """How the model is trained: what is saved, and with `micro_batch_size` also what a GPU holds of a step."""

    framework: Annotated[AnySpelling[FrameworkName], BeforeValidator(refuse_unknown_framework)] = Field(
        "megatron",
        description="Training framework. It decides what is saved, and the default format. torchtitan is FSDP2 with "
        f"the defaults that torchtitan ships. Names of trainers are taken too ({', '.join(get_args(TrainerName))}): "
        "the framework on which they run is then the answer's.",
    )
    trainer: TrainerName | None = Field(
        None,
        description="Trainer that was named as the framework; its own defaults go before the framework's. Default: "
        "none, the framework itself.",
    )
    precision: AnySpelling[Precision] = Field(
        "bf16-mixed",
        description="Precision of training. Mixed means 16-bit weights beside an fp32 master copy; ZeRO 1 and 2 keep "
        "such a copy of fp32 weights too. With fp8-mixed, mxfp8-mixed and nvfp4-mixed matrix products of layers are in "
        "8 or 4 bits, the latter two with a scale for each block on Blackwell; what is saved is as with bf16-mixed.",
    )
    optimizer: Annotated[Optimizer, BeforeValidator(spelled_optimizer)] = Field(
        "adam",
        description="Optimizer. It decides which moments are saved with each tensor. Names of frameworks' configs are "
        "taken too (adamw_torch_fused, paged_adamw_8bit).",
    )
    distributed_optimizer: bool | None = Field(
        None,
        description="Whether data-parallel ranks divide the optimizer state, as Megatron-LM's "
        "--use-distributed-optimizer does. Default: no, as Megatron-LM ships. FSDP2 and DeepSpeed divide it by "
        "parallelism.shard_group and zero_stage.",
    )
    saved_state: SavedState | None = Field(
        None,
        description="Dtypes to save instead of the framework's. "
        "Default: as the framework saves, measured with torch 2.13.",
    )
    adapters: Adapters | None = Field(
        None,
        description="Low-rank adapters (LoRA) that are trained while the model is frozen. "
        "Default: the model itself is trained.",
    )
    frozen: OrText[_Names] | None = Field(
        None,
        description="Tensors that are not trained, by name or by the beginning of the name, such as attention, ffn, "
        "experts, q_proj or lm_head. Their weights are saved without optimizer state. A text has commas between names. "
        "Default: none.",
    )
    trained_parameters: OrText[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**18)]] | None = Field(
        None,
        description="Parameters that are trained of a model given by model.num_parameters, whose tensors have no names "
        "for frozen; of the others the weights are saved. Default: all.",
    )
    reinforcement: Reinforcement | None = Field(
        None,
        description="Reinforcement learning (RL) after pre-training: the models beside the policy, and what goes to "
        "inference. Default: the model is trained alone.",
    )
    vocabulary_padding_multiple: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="The vocabulary is padded to a multiple of this x tensor; Megatron takes 128. Default: not padded.",
    )

    sequence_length: Annotated[int, Field(ge=1, le=100_000_000)] | None = Field(
        None, description="Tokens of one sequence, s in the papers. Required with micro_batch_size."
    )
    micro_batch_size: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None, description="Sequences of one forward pass, b in the papers. Default: activations are not counted."
    )
    global_batch_size: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = Field(
        None,
        description="Sequences of one optimizer step over all replicas. "
        "Default: unknown, so the pipeline bubble is not computed.",
    )
    recomputation: AnySpelling[Recomputation] | None = Field(
        None,
        description="What the backward pass computes again. With selective what recompute_modules say, in torchtitan "
        "what is not on its list of saved operations; with full whole layers. Default: selective.",
    )
    recompute_modules: Annotated[tuple[AnySpelling[RecomputeModule], ...], Field(min_length=1)] | None = Field(
        None,
        description="Parts of a layer that recomputation selective computes again: scores of attention, norms, "
        "up-projections of latent attention, activation functions of routed experts. Megatron-LM's "
        "--recompute-modules. Default: core-attn, the scores.",
    )
    recomputed_layers: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None,
        description="Layers of each model chunk, the first ones, that recomputation full computes again; the others "
        "keep all. Megatron-LM's --recompute-num-layers with --recompute-method block. Default: all of them.",
    )
    attention: AnySpelling[Attention] | None = Field(
        None,
        description="Kernel of attention. With eager the scores of all pairs of tokens are kept for the backward pass, "
        "unless recomputation says otherwise; flash keeps none. Default: flash.",
    )
    loss: AnySpelling[Loss] | None = Field(
        None,
        description="Computation of cross-entropy, which decides how often the logits are held. Default: "
        "vocab-parallel in Megatron, compiled in MaxText and with compile; else eager.",
    )
    compile: bool | None = Field(
        None,
        description="Whether torch.compile compiles layers and loss, so that only matrix products are kept for the "
        "backward pass. Default: no.",
    )
    achieved: Achieved | None = Field(
        None, description="What is achieved of peak rates. Default: measured or published fractions by GPU."
    )
    schedule: AnySpelling[Schedule] | None = Field(
        None,
        description="Order of microbatches in the pipeline. It decides idle time, what is held of activations, and "
        "versions of weights. Default: 1f1b, or interleaved with virtual_pipeline.",
    )
    sequence_parallel: bool | None = Field(
        None,
        description="Whether tensor ranks share the norms' and dropouts' activations instead of each keeping all "
        "(Korthikanti et al. 2022). Default: yes when tensor is above 1.",
    )

    expert_dispatch: AnySpelling[ExpertDispatch] | None = Field(
        None,
        description="How tokens go to their experts. With deepep (DeepEP, HybridEP; Megatron-LM's "
        "--moe-token-dispatcher-type flex) once to each node, in 8 bits where matrix products are. Default: deepep "
        "with dualpipe, else all-to-all.",
    )

    gradient_compression: GradientCompression | None = Field(
        None,
        description="How data-parallel ranks compress the gradients that they exchange, and what each then keeps. "
        "Default: gradients are exchanged as they are.",
    )
    num_tokens: OrText[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**18)]] | None = Field(
        None,
        description="Tokens of the whole run; with critical_batch_tokens those that small batches need. "
        "Default: unknown, so steps of the run are not computed.",
    )
    critical_batch_tokens: OrText[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**15)]] | None = Field(
        None,
        description="Critical batch size in tokens, at which a run takes twice the fewest steps and twice the fewest "
        "tokens (McCandlish et al. 2018). Default: unknown, so the tokens of a run do not depend on its batch.",
    )
    step_seconds: PositiveSeconds | None = Field(
        None,
        description="Seconds of one optimizer step, as measured. "
        "Default: unknown, so time and checkpoints of the run are not computed.",
    )
    offload: Offload | None = Field(
        None,
        description="What of the state and of the activations lies in host memory or on NVMe drives, not on the GPU. "
        "Default: nothing.",
    )

    @property
    def folds_pipeline(self) -> bool:
        """Whether the chunks of the model lie in a V over the stages."""
        return self.schedule in FOLDED_SCHEDULES

    @property
    def moves_off_gpu(self) -> bool:
        """Whether a part of the state or the activations lies off the GPU."""
        return self.offload is not None and self.offload.moves

    @model_validator(mode="after")
    def _a_batch_is_given_whole(self) -> Self:
        if (self.sequence_length is None) != (self.micro_batch_size is None):
            given, missing = ("sequence_length", "micro_batch_size")[:: 1 if self.sequence_length else -1]
            raise broken_rule(f"has {given} without {missing}", f"give {missing} too")
        if self.num_tokens is not None and self.global_batch_size is None:
            raise broken_rule("has num_tokens without global_batch_size", "give global_batch_size")
        if self.critical_batch_tokens is not None and self.num_tokens is None:
            raise broken_rule("has critical_batch_tokens without num_tokens", "give num_tokens")
        for name in OF_A_STEP:
            if self.micro_batch_size is None and getattr(self, name) is not None:
                raise broken_rule(f"has {name} without micro_batch_size", "give micro_batch_size and sequence_length")
        if self.recompute_modules is not None and self.recomputation not in (None, "selective"):
            raise broken_rule(
                f"has recompute_modules with recomputation {self.recomputation}",
                "give recomputation selective, or remove them",
            )
        if self.recomputed_layers is not None and self.recomputation != "full":
            raise broken_rule(
                f"has recomputed_layers with recomputation {self.recomputation or 'not given'}",
                "give recomputation full, or remove it",
            )
        return self

    @model_validator(mode="after")
    def _activations_that_wait_are_counted(self) -> Self:
        asked = self.offload is not None and self.offload.activations_fraction is not None
        if asked and self.micro_batch_size is None:
            raise broken_rule(
                "has offload.activations_fraction without micro_batch_size", "give micro_batch_size and sequence_length"
            )
        return self

    @model_validator(mode="after")
    def _an_override_has_something_to_change(self) -> Self:
        moments = self.saved_state.moments if self.saved_state else None
        if moments is None:
            return self
        rules = {moment.rule for moment in OPTIMIZERS[self.optimizer]}
        if not rules:
            raise broken_rule(
                f"has saved_state.moments {moments}, but optimizer {self.optimizer} keeps none",
                "remove saved_state.moments",
            )
        if rules != {"value"}:
            raise broken_rule(
                f"has saved_state.moments {moments}, but optimizer {self.optimizer} has a format of its own",
                "remove saved_state.moments",
            )
        return self
