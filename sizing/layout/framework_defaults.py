"""What a framework does where a scenario leaves it open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sizing.provenance import Assumption
from sizing.spelling import known_spelling
from sizing.state.training import Framework

FORMAT_OF_FRAMEWORK: dict[Framework, str] = {
    "megatron": "torch-dist",
    "fsdp2": "fsdp-sharded",
    "torchtitan": "fsdp-sharded",
    "deepspeed": "deepspeed",
    "maxtext": "orbax",
}
"""The format that is taken where none is given.

Sources: `ckpt_format` of Megatron-LM and the checkpoint engine of DeepSpeed in published/framework_defaults.json;
FSDP2 leaves it to the trainer, and torchtitan and NeMo AutoModel both save shards; MaxText saves through Orbax alone.
"""


@dataclass(frozen=True, slots=True)
class Shipped:
    """What a framework ships for a field of a scenario, and by which setting of its own."""

    field: str
    value: Any
    setting: str
    with_stages: bool = False


SHIPPED: dict[Framework, tuple[Shipped, ...]] = {
    "maxtext": (Shipped("checkpoint.mode", "async", "async_checkpointing"),),
    "torchtitan": (
        Shipped("training.precision", "bf16-mixed", "mixed_precision_param bfloat16, mixed_precision_reduce float32"),
        Shipped("training.optimizer", "adamw", "optimizer.name"),
        Shipped("checkpoint.mode", "sync", "checkpoint.async_mode"),
        Shipped("retention.keep_last", 10, "checkpoint.keep_latest_k"),
        Shipped(
            "parallelism.embedding_counts_as_layer",
            True,
            "parallelism.pipeline_parallel_first_stage_less_layers",
            with_stages=True,
        ),
        Shipped(
            "parallelism.loss_counts_as_layer",
            True,
            "parallelism.pipeline_parallel_last_stage_less_layers",
            with_stages=True,
        ),
    ),
}
"""What holds for fields that a scenario leaves open, by framework, where it is not the default of all.

`with_stages`: where there is a pipeline, and the scenario says nothing of its layers. torchtitan counts its interval in
steps, 500, which no scenario knows in seconds; selective recomputation is the default of all.
Source: `published/framework_defaults.json`; torchtitan, config/job_config.py.
"""

NOT_TAKEN: dict[Framework, dict[str, Assumption]] = {
    "torchtitan": {
        "checkpoint.interval_seconds": Assumption(
            field="torchtitan checkpoint.interval",
            value="500 steps",
            reason="not taken, as the time of a step is not known: give that of 500 as the interval",
        ),
        "checkpoint.export": Assumption(
            field="torchtitan checkpoint.export_dtype",
            value="float32",
            reason="of the last checkpoint of a run, which holds weights alone (checkpoint.last_save_model_only): not "
            "counted, those before it are",
        ),
    }
}
"""What a framework ships that no field of a scenario can take, by the field that it is about; said where that is open.

Source: `published/framework_defaults.json`.
"""

KEEPS_HEADS_ONCE: frozenset[Framework] = frozenset({"fsdp2", "torchtitan"})
"""The frameworks in which tensor ranks cannot repeat heads of keys and values.

DTensor cuts the outputs of a projection evenly, also within a head, and attention then cannot tell heads apart.
Source: tried with torch 2.13, ColwiseParallel on 4 ranks; torchtitan, models/llama3, xk.view(bs, seqlen, -1, head_dim).
"""

_LAYERS_OF_STAGES = (
    "layers_per_stage",
    "first_stage_layers",
    "last_stage_layers",
    "embedding_counts_as_layer",
    "loss_counts_as_layer",
)

MEGATRON_DISTRIBUTED_OPTIMIZER = False
"""Whether Megatron-LM's optimizer is distributed where nothing is said.

Source: `use_distributed_optimizer` of Megatron-LM in published/framework_defaults.json.
"""

MEGATRON_OPTIMIZER_SHARDING: Literal["dp-reshardable"] = "dp-reshardable"
"""How a distributed optimizer is saved in torch-dist where nothing is said.

Source: `dist_ckpt_optim_fully_reshardable` of Megatron-LM, off, in published/framework_defaults.json.
"""

DEEPSPEED_ZERO_STAGE = 1
"""ZeRO stage of DeepSpeed where none is given."""


def defaults_of_framework(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario that a framework decides and the scenario leaves open, with what the framework ships.

    Source: as SHIPPED.

    >>> defaults_of_framework({"training": {"framework": "MaxText"}})
    {'checkpoint.mode': 'async'}
    >>> defaults_of_framework({"training": {"framework": "maxtext"}, "checkpoint": {"mode": "sync"}})
    {}
    """
    degrees = document.get("parallelism")
    stages = _field(degrees, "pipeline")
    deals_layers = isinstance(stages, int) and stages > 1 and not any(_field(degrees, n) for n in _LAYERS_OF_STAGES)
    return {
        each.field: each.value
        for each in shipped(_field(document.get("training"), "framework"))
        if _is_open(document, each.field) and (deals_layers or not each.with_stages)
    }


def shipped(framework: object) -> tuple[Shipped, ...]:
    """What a framework ships, by any spelling of its name; nothing of one that ships what is the default of all."""
    found = known_spelling(framework, get_args(Framework)) if isinstance(framework, str) else None
    return next((rows for name, rows in SHIPPED.items() if name == found), ())


def not_taken(scenario: object) -> Iterator[Assumption]:
    """What the framework of a scenario ships that no field can take, of fields that the scenario leaves open."""
    framework = getattr(getattr(scenario, "training", None), "framework", None)
    for field, said in NOT_TAKEN.get(framework, {}).items() if framework else ():
        block, name = field.split(".")
        if _field(getattr(scenario, block, None), name) is None:
            yield said


def _is_open(document: Mapping[str, Any], field: str) -> bool:
    block, name = field.split(".")
    return _field(document.get(block), name) is None


def _field(block: object, name: str) -> object:
    """What a block, written out or as a model, gives for a field; None where it leaves it open."""
    if isinstance(block, Mapping):
        return block.get(name)
    return getattr(block, name, None) if name in getattr(block, "model_fields_set", ()) else None
