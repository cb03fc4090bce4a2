"""Every framework by name, the defaults that it ships for open fields, and its catalog entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Field, JsonValue

from sizing.field_paths import value_at, whole_number_at, with_fields
from sizing.frameworks.ddp import ACCELERATE, DDP, LIGHTNING, TRANSFORMERS
from sizing.frameworks.deepspeed import DEEPSPEED
from sizing.frameworks.framework import Deletion, Framework, KernelsName, ShardingRule, ShippedDefault
from sizing.frameworks.fsdp2 import FSDP2
from sizing.frameworks.maxtext import MAXTEXT
from sizing.frameworks.megatron import MEGATRON
from sizing.frameworks.torchtitan import TORCHTITAN
from sizing.frameworks.trainers import TRAINERS, trainer_named, trainer_on
from sizing.provenance import Assumption
from sizing.spelling import known_spelling
from sizing.state.offload import Place
from sizing.state.optimizers import Dtype
from sizing.state.saved_state import PartName
from sizing.state.scaled_dtypes import QUANTIZED_BYTES
from sizing.state.training import DOUBLE_QUANTIZED, FrameworkName, Loss, Precision, spelled_base_dtype
from sizing.strict_model import StrictModel

FRAMEWORKS: dict[FrameworkName, Framework] = {
    each.name: each
    for each in (
        MEGATRON,
        FSDP2,
        TORCHTITAN,
        DEEPSPEED,
        MAXTEXT,
        TRANSFORMERS,
        ACCELERATE,
        LIGHTNING,
        DDP,
    )
}
"""Every framework, in the order in which `training.framework` names them."""


_LAYERS_OF_STAGES = ("layers_per_stage", "first_stage_layers", "last_stage_layers")
"""Fields that give the layers of a stage. Beside them, embedding and loss count as no layers."""


def defaults_of_framework(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a scenario leaves open and its framework decides, with the framework's defaults.

    Source: `defaults` of each framework.

    >>> defaults_of_framework({"training": {"framework": "MaxText"}})
    {'checkpoint.mode': 'async'}
    >>> defaults_of_framework({"training": {"framework": "maxtext"}, "checkpoint": {"mode": "sync"}})
    {}
    >>> defaults_of_framework({"training": {"framework": "deepspeed"}, "reliability": {"mtbf_seconds": 3600}})
    {'reliability.detection_seconds': 72.6}
    >>> on_trl = {"framework": "transformers", "trainer": "trl"}
    >>> of_trl = defaults_of_framework({"training": on_trl | {"adapters": {"rank": 16, "base_dtype": "4bit"}}})
    >>> of_trl["training.precision"], of_trl["training.adapters.double_quant"]
    ('bf16', False)
    >>> on_verl = {"framework": "fsdp2", "trainer": "verl"}
    >>> defaults_of_framework({"training": on_verl | {"adapters": {"rank": 16}}})["training.adapters.save_base"]
    True
    """
    degrees, training = document.get("parallelism"), document.get("training")
    adapters = _field(training, "adapters")
    of_base = str(spelled_base_dtype(_field(adapters, "base_dtype"))).lower()
    holds = {"anything"} | ({"no adapters"} if adapters is None else set())
    holds |= {"a quantised base"} if of_base in QUANTIZED_BYTES else set()
    holds |= {"a base in 4 bits"} if of_base in DOUBLE_QUANTIZED else set()
    stages = whole_number_at(document, "parallelism.pipeline") or 1
    spreads_layers = stages > 1 and not any(_field(degrees, name) for name in _LAYERS_OF_STAGES)
    return {
        each.field: each.value
        for each in shipped_defaults(_field(training, "framework"), trainer=_field(training, "trainer"))
        for path, _, name in [each.field.rpartition(".")]
        for block in [value_at(document, path)]
        if _field(block, name) is None
        and (spreads_layers or not each.with_stages)
        and (not each.in_given_block or isinstance(block, Mapping | BaseModel))
        and (not each.with_microbatch or _field(training, "micro_batch_size") is not None)
        and each.beside in holds
    }


def shipped_defaults(framework: object, *, trainer: object = None) -> tuple[ShippedDefault, ...]:
    """Return the defaults that a framework ships, by any spelling of its name, and those of a trainer that runs on it.

    The trainer's go before; there are none for unknown names.
    """
    spelled = known_spelling(framework, FRAMEWORKS) if isinstance(framework, str) else None
    own = next((each.defaults for name, each in FRAMEWORKS.items() if name == spelled), ())
    runs_on_it = trainer_on(spelled, trainer)
    if runs_on_it is None:
        return own
    fields = {each.field for each in runs_on_it.defaults}
    return (*runs_on_it.defaults, *(each for each in own if each.field not in fields))


def with_framework_of_trainer(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Put the framework that a trainer runs on in the place of its name.

    >>> with_framework_of_trainer({"training": {"framework": "Torchtune"}})
    {'training': {'framework': 'fsdp2', 'trainer': 'torchtune'}}
    """
    name = trainer_named(_field(document.get("training"), "framework"))
    if name is None:
        return document
    return with_fields(document, {"training.framework": TRAINERS[name].framework, "training.trainer": name})


def list_not_taken(scenario: object) -> Iterator[Assumption]:
    """List the settings that the framework ships and no answer takes, for fields that the scenario leaves open."""
    name = getattr(getattr(scenario, "training", None), "framework", None)
    for fields, assumption in FRAMEWORKS[name].not_taken.items() if name else ():
        paths = (field.split(".") for field in fields)
        if all(_field(getattr(scenario, block, None), of_block) is None for block, of_block in paths):
            yield assumption


def _field(block: object, name: str) -> object:
    """Return the value that a block, as a mapping or a model, gives to a field; None if it leaves the field open."""
    if isinstance(block, Mapping):
        return block.get(name)
    return getattr(block, name, None) if name in getattr(block, "model_fields_set", ()) else None


class CatalogFramework(StrictModel):
    """A training framework: what it keeps, divides, moves off the GPU and ships as its defaults."""

    name: FrameworkName = Field(description="Name, for training.framework of a scenario.")
    title: str = Field(description="Name as people write it.")
    version: str = Field(description="Version that its facts were read in or measured with.")
    format: str = Field(description="Checkpoint format that is taken where checkpoint.format is open.")
    keeps: dict[Precision, dict[PartName, Dtype]] = Field(
        description="Dtype of each part of the training state, by training.precision; it trains in no other."
    )
    gradient_bytes: dict[Precision, int] = Field(
        description="Bytes per parameter of the gradients, by training.precision. They are never saved."
    )
    shards: ShardingRule = Field(
        description="How replicas divide the state: optimizer where it is distributed, by the stage of zero, all of it "
        "by the meshes of fsdp, or all of it over mesh-axes."
    )
    offloads: dict[PartName, tuple[Place, ...]] = Field(
        description="Places off the GPU that it knows for the weights, and for the optimizer's moments and master copy."
    )
    kernels: KernelsName = Field(description="Operations between matrix products where training.compile is open.")
    loss: Loss = Field(description="Computation of cross-entropy where training.loss is open.")
    defaults: dict[str, JsonValue] = Field(description="What it ships for fields that a scenario leaves open.")
    not_taken: dict[str, JsonValue] = Field(
        description="What it ships that no answer takes by itself, by the framework's own setting."
    )
    deletes: Deletion = Field(description="When it deletes checkpoints that it keeps no longer.")
    retention: str = Field(description="Its setting of how many checkpoints it keeps.")
    loading: str = Field(description="How it reads a checkpoint back, in words.")
    source: str = Field(description="Source code or document in which this was read.")


def catalog_frameworks() -> list[CatalogFramework]:
    """List every framework as a catalog entry, in the order of the registry."""
    return [
        CatalogFramework(
            name=each.name,
            title=each.title,
            version=each.version,
            format=each.format,
            keeps={precision: dict(state.dtypes) for precision, state in each.keeps.items()},
            gradient_bytes={precision: state.gradient_bytes for precision, state in each.keeps.items()},
            shards=each.shards,
            offloads={
                "weights": each.offload.weights,
                "master": each.offload.optimizer,
                "moments": each.offload.optimizer,
            },
            kernels=each.kernels,
            loss=each.loss,
            defaults={default.field: default.value for default in each.defaults},
            not_taken={assumption.field: assumption.value for assumption in each.not_taken.values()},
            deletes=each.retention.deletes,
            retention=each.retention.setting,
            loading=each.loading,
            source="; ".join((each.source, each.offload.source, each.retention.source)),
        )
        for each in FRAMEWORKS.values()
    ]
