"""The `model` block of a Scenario, and what it resolves to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from sizing.catalog_file import catalog_name
from sizing.errors import broken_rule, printable, require_one_of
from sizing.model.architecture import Architecture
from sizing.model.catalog import catalog, model_named
from sizing.model.composed import Composition
from sizing.model.huggingface import Config, left_out, model_from
from sizing.model.inventory import (
    Inventory,
    TensorGroup,
    inventory_of,
    inventory_of_count,
    num_active_parameters,
    num_parameters,
)
from sizing.provenance import Assumption
from sizing.units import parse_count

_WAYS = ("preset", "architecture", "huggingface_config", "num_parameters")
EXPERTS_PER_TOKEN = 8
"""Where only counts are known: DeepSeek-V3, arXiv 2412.19437, section 4.2, and most mixtures since."""
_OF_A_MIXTURE = ("num_active_parameters", "num_experts", "num_experts_per_token")


class Model(BaseModel):
    """What is trained: a catalog name, an architecture, a Hugging Face config.json, or only a count."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: Annotated[str, Field(max_length=100), catalog_name(catalog)] | None = Field(
        None,
        description="Name of a published model; `ckpt-size models` lists them. "
        "Give exactly one of preset, architecture, huggingface_config, num_parameters.",
    )
    architecture: Architecture | None = Field(
        None,
        description="Layers, widths and heads of a model that is not in the catalog. "
        "Give exactly one of preset, architecture, huggingface_config, num_parameters.",
    )
    huggingface_config: dict[str, JsonValue] | None = Field(
        None,
        max_length=500,
        description="Content of a Hugging Face config.json. A model_type that is not known is refused. "
        "Give exactly one of preset, architecture, huggingface_config, num_parameters.",
    )
    num_parameters: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**16)] | None = Field(
        None,
        description="Parameter count, for a model of which nothing else is known. "
        "Every rank is then taken to hold an equal share. "
        "Give exactly one of preset, architecture, huggingface_config, num_parameters.",
    )
    num_active_parameters: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**16)] | None = Field(
        None,
        description="Parameters that one token passes through, of a mixture of experts of which only counts are known; "
        "those of the routed experts are estimated from it. Required with num_experts. Default: all, no experts.",
    )
    num_experts: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None,
        description="Routed experts of a layer, where only counts are known. Required with num_active_parameters. "
        "Default: none.",
    )
    num_experts_per_token: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None,
        description="Routed experts that each token passes through, where only counts are known. "
        "Default: 8, or num_experts where that is less.",
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        require_one_of(self, _WAYS)
        for rule, remedy in self._contradictions():
            raise broken_rule(rule, remedy)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        given = [name for name in _OF_A_MIXTURE if getattr(self, name) is not None]
        if not given:
            return
        if self.num_parameters is None:
            yield f"has {given[0]} without num_parameters", f"remove {given[0]}: the model's own description says it"
        elif self.num_experts is None or self.num_active_parameters is None:
            missing = "num_experts" if self.num_experts is None else "num_active_parameters"
            yield f"has {given[0]} without {missing}", f"give {missing}"
        else:
            yield from self._contradicting_counts(self.num_parameters, self.num_active_parameters, self.num_experts)

    def _contradicting_counts(self, whole: int, active: int, num_experts: int) -> Iterator[tuple[str, str]]:
        per_token = _experts_per_token(self)
        if per_token > num_experts:
            yield f"has num_experts_per_token {per_token} of num_experts {num_experts}", "give at most num_experts"
        least = -(-whole * per_token // num_experts)
        if not least <= active <= whole:
            rule = f"has num_active_parameters {active}, which {per_token} of {num_experts} experts do not allow"
            yield rule, f"give {least} to {whole}, or another num_experts_per_token"


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model as the calculation needs it.

    `architecture` is None where the model is composed of pieces, `composition` where it is not; both are None, and
    `num_layers` is 0, where only counts are known.
    """

    name: str
    architecture: Architecture | None
    inventory: Inventory
    num_parameters: int
    assumptions: tuple[Assumption, ...]
    num_layers: int = 0
    num_experts: int | None = None
    num_experts_per_token: int | None = None
    composition: Composition | None = None

    @property
    def num_active_parameters(self) -> int:
        """Parameters that one token passes through."""
        return num_active_parameters(self.inventory, num_experts_per_token=self.num_experts_per_token or 1)


def resolve(model: Model, *, vocabulary_multiple: int | None = None) -> ResolvedModel:
    """The model that a `model` block asks for, its vocabulary padded to a multiple if one is given.

    Raises InvalidInput where the catalog does not know the preset or the config is not understood.
    """
    if model.num_parameters is not None:
        return _of_mixture(model) if model.num_experts else _of_count(model.num_parameters)
    name, described, config = _described(model)
    if isinstance(described, Architecture):
        resolved = _of_architecture(name, described, vocabulary_multiple)
    else:
        resolved = _of_composition(name, described, vocabulary_multiple)
    return replace(resolved, assumptions=(*resolved.assumptions, *left_out(config or {})))


def _described(model: Model) -> tuple[str, Architecture | Composition, Config | None]:
    """The model's name, what it is, and the config that says so, if one does."""
    if model.architecture is not None:
        return "architecture", model.architecture, None
    if model.huggingface_config is not None:
        config = model.huggingface_config
        name = str(config.get("_name_or_path") or config.get("model_type") or "huggingface_config")
        return printable(name[:100]), model_from(config), config
    entry = model_named(str(model.preset))
    return entry.name, entry.described, entry.huggingface_config


def _of_architecture(name: str, architecture: Architecture, multiple: int | None) -> ResolvedModel:
    padded = _padded(architecture, multiple)
    inventory = inventory_of(padded)
    return ResolvedModel(
        name,
        padded,
        inventory,
        num_parameters(inventory),
        (*_filled_in(architecture), _padding(architecture.vocab_size, padded.vocab_size)),
        num_layers=padded.num_layers,
        num_experts=padded.num_experts,
        num_experts_per_token=padded.num_experts_per_token,
    )


def _of_composition(name: str, composition: Composition, multiple: int | None) -> ResolvedModel:
    vocabulary = composition.vocab_size
    padded = _multiple_of(vocabulary, multiple)
    inventory = tuple(_with_rows(group, vocabulary, padded) for group in composition.inventory)
    return ResolvedModel(
        name,
        None,
        inventory,
        num_parameters(inventory),
        (_padding(vocabulary, padded),),
        num_layers=composition.num_layers,
        num_experts=composition.num_experts,
        num_experts_per_token=composition.num_experts_per_token,
        composition=replace(composition, vocab_size=padded),
    )


def _with_rows(group: TensorGroup, vocabulary: int, padded: int) -> TensorGroup:
    """A tensor that has a row for each token of the vocabulary, with rows for the padded one."""
    if group.placement == "layers" or group.shape[0] != vocabulary or group.pieces != vocabulary:
        return group
    return replace(group, shape=(padded, *group.shape[1:]), pieces=padded)


def _padded(architecture: Architecture, multiple: int | None) -> Architecture:
    return architecture.model_copy(update={"vocab_size": _multiple_of(architecture.vocab_size, multiple)})


def _multiple_of(vocabulary: int, multiple: int | None) -> int:
    return vocabulary if multiple is None else -(-vocabulary // multiple) * multiple


def _padding(given: int, padded: int) -> Assumption:
    unpadded = "not padded; Megatron pads to a multiple of 128 x tensor"
    reason = unpadded if padded == given else f"padded from {given}"
    return Assumption(field="model.architecture.vocab_size", value=padded, reason=reason)


def _of_count(count: int) -> ResolvedModel:
    assumption = Assumption(
        field="model.num_parameters",
        value=count,
        reason="only a count is given: every rank is taken to hold an equal share, nothing replicated",
    )
    return ResolvedModel(f"{count:,} parameters", None, inventory_of_count(count), count, (assumption,))


def _experts_per_token(model: Model) -> int:
    """Experts of a token, where only counts are known."""
    if model.num_experts_per_token is not None:
        return model.num_experts_per_token
    return min(EXPERTS_PER_TOKEN, model.num_experts or 1)


def routed_parameters(whole: int, active: int, *, num_experts: int, per_token: int) -> int:
    """Parameters of all routed experts of a model of which only counts are known: (P - A) / (1 - k/E).

    P parameters, of which A are active: A = (P - routed) + routed k / E with k of E experts.
    Source: Jiang et al. 2024, arXiv 2401.04088, section 2.1, solved; every other tensor is taken to be active.

    >>> routed_parameters(46_702_792_704, 12_879_925_248, num_experts=8, per_token=2)  # Mixtral 8x7B: 45,097,156,608
    45097156608
    """
    if per_token == num_experts:
        return 0
    return (whole - active) * num_experts // (num_experts - per_token)


def _of_mixture(model: Model) -> ResolvedModel:
    whole, active, num_experts = model.num_parameters or 0, model.num_active_parameters or 0, model.num_experts or 0
    per_token = _experts_per_token(model)
    routed = routed_parameters(whole, active, num_experts=num_experts, per_token=per_token)
    expert = min(routed // num_experts, (whole - 1) // num_experts)
    estimates = [
        Assumption(
            field="model.num_routed_expert_parameters",
            value=expert * num_experts,
            reason="estimated from the active parameters; all ranks are taken to hold equal shares",
        )
    ]
    if model.num_experts_per_token is None:
        reason = "default: as in DeepSeek-V3, arXiv 2412.19437"
        estimates.append(Assumption(field="model.num_experts_per_token", value=per_token, reason=reason))
    return ResolvedModel(
        f"{whole:,} parameters, {active:,} active",
        None,
        inventory_of_count(whole, expert=expert, num_experts=num_experts),
        whole,
        tuple(estimates),
        num_experts=num_experts,
        num_experts_per_token=per_token,
    )


def _filled_in(architecture: Architecture) -> list[Assumption]:
    """What an architecture left open and the family, or the other fields, decided."""
    derived = {
        "ffn_hidden_size": architecture.ffn_width,
        "num_kv_heads": architecture.kv_heads,
        "head_dim": architecture.head_width,
        "max_positions": architecture.position_rows or None,
    }
    filled = [
        Assumption(field=f"model.architecture.{field}", value=value, reason="follows from the architecture")
        for field, value in derived.items()
        if value is not None and getattr(architecture, field) is None and not architecture.traits.latent_attention
    ]
    if architecture.tied_embeddings is None:
        reason = f"the habit of the {architecture.family} family"
        tied = architecture.ties_embeddings
        filled.append(Assumption(field="model.architecture.tied_embeddings", value=tied, reason=reason))
    return filled
