"""The `model` block of a Scenario, and the model that it resolves to."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from sizing.catalog_file import catalog_name
from sizing.errors import InvalidInput, broken_rule, printable, require_one_of
from sizing.model.architecture import Architecture
from sizing.model.catalog import catalog, model_named
from sizing.model.composed import Composition
from sizing.model.families import TRAITS
from sizing.model.huggingface import (
    Config,
    as_json,
    beside_language_model,
    left_out,
    model_from,
    not_counted,
    says_prediction_modules,
)
from sizing.model.inventory import (
    Inventory,
    TensorGroup,
    inventory_of,
    inventory_of_count,
    num_active_parameters,
    num_parameters,
    with_fused,
)
from sizing.model.listed import MAX_ENTRIES, Heads, TensorEntry, listed_model
from sizing.provenance import Assumption
from sizing.spelling import known_spelling
from sizing.strict_model import InputModel
from sizing.units import OrText, count_text, counted_text, min_count_text, parse_count

_WAYS = ("preset", "architecture", "huggingface_config", "tensors", "num_parameters")
PRESETS_KEPT = 64
"""Presets in the cache; each vocabulary multiple counts apart."""
PREDICTION_MODULES = "model.architecture.num_mtp_layers"
"""Field under which the report says whether modules for multi-token prediction are counted, unless a config gives their
number.
"""

EXPERTS_PER_TOKEN = 8
"""Default where only counts are known: DeepSeek-V3, arXiv 2412.19437, section 4.2, and most mixtures since."""
_OF_A_MIXTURE = ("num_active_parameters", "num_experts", "num_experts_per_token")
_BESIDE_TENSORS = ("num_attention_heads", "num_kv_heads")


class Model(InputModel):
    """What is trained: a catalog name, an architecture, a config.json, a list of tensors, or only a count."""

    preset: Annotated[str, Field(max_length=100), catalog_name(catalog)] | None = Field(
        None,
        description="Name of a published model; `ckpt-size models` lists them. A name on a hub leads to the model of "
        "the same shapes (Qwen/Qwen2.5-72B-Instruct: qwen2.5-72b). "
        "Give exactly one of preset, architecture, huggingface_config, tensors, num_parameters.",
    )
    architecture: Architecture | None = Field(
        None,
        description="Layers, widths and heads of a model that is not in the catalog. "
        "Give exactly one of preset, architecture, huggingface_config, tensors, num_parameters.",
    )
    huggingface_config: Annotated[dict[str, JsonValue], Field(max_length=500), BeforeValidator(as_json)] | None = Field(
        None,
        description="Content of a Hugging Face config.json. A model_type that is not known is refused. "
        "Give exactly one of preset, architecture, huggingface_config, tensors, num_parameters.",
    )
    tensors: tuple[TensorEntry, ...] | None = Field(
        None,
        min_length=1,
        max_length=MAX_ENTRIES,
        description="Every tensor of any model, equal ones together; ckpt-size tensors makes the list. "
        "Roles that the rules do not know are whole on every tensor rank, and the answer says so. "
        "Give exactly one of preset, architecture, huggingface_config, tensors, num_parameters.",
    )
    language_model_only: bool | None = Field(
        None,
        description="Leave out what a preset or a config.json describes beside the language model: its vision tower, "
        "the projector and modules for multi-token prediction. Default: false, all that can be counted is.",
    )
    num_parameters: OrText[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**16)]] | None = Field(
        None,
        description="Parameter count, for a model of which nothing else is known. "
        "Every rank is then taken to hold an equal share. "
        "Give exactly one of preset, architecture, huggingface_config, tensors, num_parameters.",
    )
    num_active_parameters: OrText[Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**16)]] | None = Field(
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
        description="Routed experts that each token passes through, where only counts or tensors are known. "
        "Default: 8, or num_experts where that is less.",
    )
    num_attention_heads: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None,
        description="Query heads of a layer, of which tensor ranks hold whole ones; only with tensors. "
        "Default: unknown, so that attention is cut by rows.",
    )
    num_kv_heads: Annotated[int, Field(ge=1, le=100_000)] | None = Field(
        None, description="Heads of keys and values; only with tensors. Default: what the shapes say."
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        require_one_of(self, _WAYS)
        for rule, remedy in self._contradictions():
            raise broken_rule(rule, remedy)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        heads = [name for name in _BESIDE_TENSORS if getattr(self, name) is not None]
        if heads and self.tensors is None:
            yield f"has {heads[0]} without tensors", f"remove {heads[0]}: the model's own description says it"
        elif self.num_kv_heads is not None and self.num_attention_heads is None:
            yield "has num_kv_heads without num_attention_heads", "give num_attention_heads"
        mixture = _OF_A_MIXTURE if self.tensors is None else _OF_A_MIXTURE[:2]
        given = [name for name in mixture if getattr(self, name) is not None]
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
        per_token = self.num_experts_per_token or _count_experts_per_token(self, num_experts)
        if per_token > num_experts:
            yield f"has num_experts_per_token {per_token} of num_experts {num_experts}", "give at most num_experts"
        least = -(-whole * per_token // num_experts)
        rule = (
            f"has num_active_parameters {count_text(active)}, which {per_token} of {num_experts} experts do not allow"
        )
        if active > whole:
            yield rule, f"give at most num_parameters {count_text(whole)}"
        elif active < least:
            most = active * num_experts // whole
            fewer = f"num_experts_per_token, here at most {most}, or " if most else ""
            yield rule, f"give {fewer}num_active_parameters of {min_count_text(least)} or more"


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """Model as the calculation needs it, with warnings about what is not counted.

    `architecture` is None if the model is composed of pieces; `composition` is None if it is not. Both are None if
    tensors are listed or only counts are known. `num_layers` is 0 if the layers are unknown.
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
    warnings: tuple[str, ...] = ()

    @property
    def num_active_parameters(self) -> int:
        """Number of parameters that one token passes through."""
        return num_active_parameters(self.inventory, num_experts_per_token=self.num_experts_per_token or 1)


def resolve(model: Model, *, vocabulary_multiple: int | None = None) -> ResolvedModel:
    """Resolve a `model` block to a model. `vocabulary_multiple` pads the vocabulary to a multiple, if given.

    Raises InvalidInput where the catalog does not know the preset or the config is not understood.
    """
    is_whole = not model.language_model_only
    if model.num_parameters is not None:
        return _resolve_mixture(model) if model.num_experts else _resolve_count(model.num_parameters)
    if model.tensors is not None:
        return _resolve_tensors(model, model.tensors, vocabulary_multiple)
    if model.preset is not None:
        return _resolve_preset(str(model.preset), vocabulary_multiple, is_whole=is_whole)
    if model.architecture is not None:
        return _resolve_description("architecture", model.architecture, None, vocabulary_multiple, is_whole=is_whole)
    config = model.huggingface_config or {}
    name = printable(str(config.get("_name_or_path") or config.get("model_type") or "huggingface_config")[:100])
    return _resolve_description(name, model_from(config), config, vocabulary_multiple, is_whole=is_whole)


@functools.lru_cache(maxsize=PRESETS_KEPT)
def _resolve_preset(preset: str, vocabulary_multiple: int | None, *, is_whole: bool) -> ResolvedModel:
    """Resolve a model of the catalog. The cache serves the layout search, which asks for it with every alternative."""
    entry = model_named(preset)
    resolved = _resolve_description(
        entry.name, entry.described, entry.huggingface_config, vocabulary_multiple, is_whole=is_whole
    )
    warnings = resolved.warnings
    if entry.leaves_out is not None and is_whole:
        warnings = (
            f"Not counted of the published model: {entry.leaves_out}. To count all, list the tensors of its files, or "
            "those that transformers builds of its config.json, in model.tensors",
        )
    if known_spelling(preset, [entry.name]) is None:
        of_name = f"{printable(preset)} is answered as {entry.name}, whose tensors have the same shapes"
        warnings = (of_name, *warnings)
    return replace(resolved, warnings=warnings)


def _resolve_description(
    name: str,
    described: Architecture | Composition,
    config: Config | None,
    vocabulary_multiple: int | None,
    *,
    is_whole: bool,
) -> ResolvedModel:
    if isinstance(described, Architecture):
        resolved = _resolve_architecture(name, described, vocabulary_multiple)
    else:
        resolved = _resolve_composition(name, described, vocabulary_multiple)
    beside = beside_language_model(config or {}, described) if is_whole else None
    of_config = tuple(left_out(config or {}, beside))
    own = resolved.assumptions
    if any(map(says_prediction_modules, of_config)):
        own = tuple(each for each in own if each.field != PREDICTION_MODULES)
    fused = TRAITS[described.family].fused if isinstance(described, Architecture) else described.fused
    inventory = (*with_fused(resolved.inventory, fused), *(beside or ()))
    return replace(
        resolved,
        inventory=inventory,
        num_parameters=num_parameters(inventory),
        assumptions=(*own, *of_config),
        warnings=tuple(not_counted(config or {}, beside)) if is_whole else (),
    )


def _resolve_architecture(name: str, architecture: Architecture, multiple: int | None) -> ResolvedModel:
    padded = architecture.model_copy(update={"vocab_size": _round_up(architecture.vocab_size, multiple)})
    inventory = inventory_of(padded)
    return ResolvedModel(
        name,
        padded,
        inventory,
        num_parameters(inventory),
        (
            *_list_filled_fields(architecture),
            *_report_prediction_modules(padded, inventory),
            _report_padding(architecture.vocab_size, padded.vocab_size),
        ),
        num_layers=padded.num_layers,
        num_experts=padded.num_experts,
        num_experts_per_token=padded.num_experts_per_token,
    )


def _resolve_composition(name: str, composition: Composition, multiple: int | None) -> ResolvedModel:
    vocabulary = composition.vocab_size
    padded = _round_up(vocabulary, multiple)
    inventory = tuple(_pad_rows(group, vocabulary, padded) for group in composition.inventory)
    return ResolvedModel(
        name,
        None,
        inventory,
        num_parameters(inventory),
        (_report_padding(vocabulary, padded),),
        num_layers=composition.num_layers,
        num_experts=composition.num_experts,
        num_experts_per_token=composition.num_experts_per_token,
        composition=replace(composition, vocab_size=padded),
    )


def _resolve_tensors(model: Model, tensors: tuple[TensorEntry, ...], multiple: int | None) -> ResolvedModel:
    listed = listed_model(tensors, Heads(model.num_attention_heads, model.num_kv_heads))
    inventory, padding = listed.inventory, []
    if listed.vocab_size and multiple is not None:
        padded = _round_up(listed.vocab_size, multiple)
        inventory = tuple(_pad_rows(group, listed.vocab_size, padded) for group in inventory)
        padding = [_report_padding(listed.vocab_size, padded)]
    per_token = _count_experts_per_token(model, listed.num_experts) if listed.num_experts else None
    if model.num_experts_per_token not in (None, per_token):
        rule = f"must be at most the experts of model.tensors, {listed.num_experts or 0}"
        value = model.num_experts_per_token
        raise InvalidInput.of("model.num_experts_per_token", rule, value=value, remedy="correct it or remove it")
    by_rules = Assumption(
        field="model.tensors",
        value="roles by rules",
        reason="over names and shapes, where an entry does not say its roles; ckpt-size tensors shows them",
    )
    return ResolvedModel(
        f"list of {counted_text(listed.num_tensors, 'tensor')}",
        None,
        inventory,
        num_parameters(inventory),
        (by_rules, *listed.notes, *padding, *(_report_experts_per_token(model, per_token) if per_token else [])),
        num_layers=listed.num_layers,
        num_experts=listed.num_experts,
        num_experts_per_token=per_token,
    )


def _pad_rows(group: TensorGroup, vocabulary: int, padded: int) -> TensorGroup:
    """Pad a tensor that has a row for each token of the vocabulary; return any other tensor as it is."""
    if group.placement == "layers" or group.shape[0] != vocabulary or group.pieces != vocabulary:
        return group
    return replace(group, shape=(padded, *group.shape[1:]), pieces=padded)


def _round_up(vocabulary: int, multiple: int | None) -> int:
    return vocabulary if multiple is None else -(-vocabulary // multiple) * multiple


def _report_padding(given: int, padded: int) -> Assumption:
    unpadded = "not padded; Megatron pads to a multiple of 128 x tensor"
    reason = unpadded if padded == given else f"padded from {given}"
    return Assumption(field="model.architecture.vocab_size", value=padded, reason=reason)


def _resolve_count(count: int) -> ResolvedModel:
    assumption = Assumption(
        field="model.num_parameters",
        value=count,
        reason="only a count is given: every rank is taken to hold an equal share, nothing replicated",
    )
    return ResolvedModel(f"{count:,} parameters", None, inventory_of_count(count), count, (assumption,))


def _count_experts_per_token(model: Model, num_experts: int) -> int:
    """Return the experts per token, where only counts or tensors are known."""
    return min(model.num_experts_per_token or EXPERTS_PER_TOKEN, num_experts)


def _report_experts_per_token(model: Model, per_token: int) -> Iterator[Assumption]:
    if model.num_experts_per_token is None:
        reason = "default: as in DeepSeek-V3, arXiv 2412.19437"
        yield Assumption(field="model.num_experts_per_token", value=per_token, reason=reason)


def routed_parameters(whole: int, active: int, *, num_experts: int, per_token: int) -> int:
    """Count the parameters of all routed experts, where only counts are known: (P - A) / (1 - k/E).

    P parameters, of which A are active: A = (P - routed) + routed k / E with k of E experts.
    Source: Jiang et al. 2024, arXiv 2401.04088, section 2.1, solved; every other tensor is taken to be active.

    >>> routed_parameters(46_702_792_704, 12_879_925_248, num_experts=8, per_token=2)  # Mixtral 8x7B: 45,097,156,608
    45097156608
    """
    if per_token == num_experts:
        return 0
    return (whole - active) * num_experts // (num_experts - per_token)


def _resolve_mixture(model: Model) -> ResolvedModel:
    whole, active, num_experts = model.num_parameters or 0, model.num_active_parameters or 0, model.num_experts or 0
    per_token = _count_experts_per_token(model, num_experts)
    routed = routed_parameters(whole, active, num_experts=num_experts, per_token=per_token)
    expert = min(routed // num_experts, (whole - 1) // num_experts)
    estimates = [
        Assumption(
            field="model.num_routed_expert_parameters",
            value=expert * num_experts,
            reason="estimated from the active parameters; all ranks are taken to hold equal shares",
        )
    ]
    estimates += _report_experts_per_token(model, per_token)
    return ResolvedModel(
        f"{whole:,} parameters, {active:,} active",
        None,
        inventory_of_count(whole, expert=expert, num_experts=num_experts),
        whole,
        tuple(estimates),
        num_experts=num_experts,
        num_experts_per_token=per_token,
    )


def _report_prediction_modules(architecture: Architecture, inventory: Inventory) -> Iterator[Assumption]:
    """Report whether the modules for multi-token prediction, which the DeepSeek family may have, are counted."""
    if not architecture.traits.latent_attention:
        return
    counted = num_parameters(tuple(group for group in inventory if group.name.startswith("mtp.")))
    match architecture.num_mtp_layers:
        case None:
            are = "not counted; give their number to count them"
        case 0:
            are = "not counted, as their number is given as 0"
        case _:
            are = f"counted, {counted:,} parameters"
    reason = f"multi-token-prediction modules are {are}"
    yield Assumption(field=PREDICTION_MODULES, value=architecture.num_mtp_layers or 0, reason=reason)


def _list_filled_fields(architecture: Architecture) -> list[Assumption]:
    """List the fields that an architecture leaves open, with the values that follow from its family or other fields."""
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
