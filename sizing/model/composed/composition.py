"""Compose the tensors of a model from its config.json: the pieces of its model_type, in the layers that have them."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import JsonValue

from sizing.errors import InvalidInput, Problem
from sizing.model.attention_window import AttentionWindow, window_of
from sizing.model.composed import pieces, recurrent_pieces
from sizing.model.composed.expressions import evaluate, names_in
from sizing.model.composed.model_types import Defaults, Expression, ModelType, PieceRow, defaults, model_types, towers
from sizing.model.families import FusedPart
from sizing.model.inventory import Inventory, Placement, TensorGroup, group_of, progression

Config = Mapping[str, JsonValue]
FIELD = "model.huggingface_config"
MAX_LAYERS = 10_000
"""Max layers, as in Architecture."""
MAX_SIZE = 10**9
"""Max size of one dimension: far above that of any model, and small enough to compute with."""

KINDS: dict[str, type[pieces.Piece]] = {
    "norms": pieces.Norms,
    "attention": pieces.Attention,
    "latent-attention": pieces.LatentAttention,
    "indexer": pieces.Indexer,
    "feed-forward": pieces.FeedForward,
    "experts": pieces.Experts,
    "mamba": recurrent_pieces.Mamba,
    "mamba2": recurrent_pieces.Mamba2,
    "gated-delta-net": recurrent_pieces.GatedDeltaNet,
    "kimi-delta-attention": recurrent_pieces.KimiDeltaAttention,
    "lightning-attention": recurrent_pieces.LightningAttention,
    "short-convolution": recurrent_pieces.ShortConvolution,
}


@dataclass(frozen=True, slots=True)
class PlacedPiece:
    """A piece, with the layers that have it."""

    piece: pieces.Piece
    layers: Sequence[int]
    prefix: str

    def groups(self) -> Iterator[TensorGroup]:
        """List the tensors of the piece, in the layers that have it."""
        for tensor in self.piece.tensors():
            if tensor.count and all(tensor.shape):
                yield group_of(tensor, prefix=self.prefix, layers=self.layers)


@dataclass(frozen=True)
class Composition:
    """Model that a config composes. `vocab_size` is the number of rows of the embedding table.

    `prediction` has the modules for multi-token prediction, which are not in `inventory`.
    """

    model_type: str
    num_layers: int
    hidden_size: int
    vocab_size: int
    num_experts: int | None
    num_experts_per_token: int | None
    placed: tuple[PlacedPiece, ...]
    inventory: Inventory
    prediction: Inventory = ()
    fused: tuple[FusedPart, ...] = ()
    window: AttentionWindow | None = None


def composed_types() -> tuple[str, ...]:
    """List the model_types that are composed of pieces."""
    return tuple(model_types())


def composition_of(config: Config) -> Composition:
    """Compose the model that a config of one of `composed_types` describes.

    Raises InvalidInput where a field is missing or does not fit the others.
    """
    return _compose(json.dumps(config))


@functools.lru_cache(maxsize=64)
def _compose(config: str) -> Composition:
    """Read a config given as text, once for each text."""
    described = json.loads(config)
    model_type = described["model_type"]
    reading = _Reading(described, model_types()[model_type], defaults()[model_type])
    reading.check()
    return reading.composition()


def tower_of(config: Config, *, text_hidden: int) -> Inventory | None:
    """List the tensors of a config's vision tower and projector, beside a language model of width `text_hidden`.

    None where they are not counted here: the model_type of either is not known.
    Raises InvalidInput where a field does not fit the others.
    """
    projector = towers().whole.get(str(config.get("model_type")))
    vision = config.get("vision_config")
    if projector is None or not isinstance(vision, dict):
        return None
    # Before transformers 5 a tower of Qwen had the model_type of the whole model, as the configs on the hub have it.
    named = vision.get("model_type", config["model_type"])
    model_type = projector.tower if named == config["model_type"] else str(named)
    row = towers().tower.get(model_type)
    if row is None:
        return None
    own = defaults()[model_type]
    outer = projector.outer | {name: config[name] for name in projector.outer if config.get(name) is not None}
    with_projector = row.model_copy(
        update={
            "values": row.values | projector.values,
            "outside": (*row.outside, *projector.outside),
            "undeclared": (*outer, "text_hidden"),
        }
    )
    stated = vision | outer | {"model_type": model_type, "text_hidden": text_hidden}
    inventory = tuple(_Reading(stated, with_projector, own).tower())
    _check_parts(inventory)
    return inventory


def check_model_class(config: Config, model_class: str) -> None:
    """Refuse a config whose class has another head, or more than the language model."""
    classes = config.get("architectures")
    if classes and classes != [model_class]:
        raise InvalidInput.of(
            f"{FIELD}.architectures",
            f"must be ['{model_class}'] for this model_type",
            value=classes,
            remedy="give the config of the language model itself",
        )
    if config.get("is_encoder_decoder") and not classes:
        raise InvalidInput.of(
            f"{FIELD}.architectures",
            f"must be ['{model_class}'] where is_encoder_decoder is true, as the decoder alone is counted",
            value=classes,
            remedy="add it if the decoder is trained alone; else list all tensors in model.tensors",
        )


class _Reading:
    """Reader of a config, by the row of its model_type."""

    def __init__(self, config: Config, row: ModelType, of_class: Defaults) -> None:
        self._config = config
        self._model_type = str(config["model_type"])
        self._row = row
        self._defaults = of_class
        self._read: dict[str, frozenset[str]] = {}
        self._readable = {*self._defaults.values, *self._defaults.required, *self._row.undeclared}
        self._known: dict[tuple[str, int | None], Any] = {}
        self._open: set[str] = set()
        self._layer: int | None = None

    def check(self) -> None:
        """Refuse a config that would be counted wrong."""
        check_model_class(self._config, str(self._row.model_class))
        missing = [name for name in self._defaults.required if self._value_stated(name) is None]
        if missing:
            raise InvalidInput(Problem(f"{FIELD}.{name}", "is required", "", "add it") for name in missing)
        for expression, reason in self._row.refused.items():
            if self._value(expression):
                raise InvalidInput.of(
                    FIELD, f"must not have {reason} to be counted here", value=None, remedy=_OTHER_WAYS
                )

    def composition(self) -> Composition:
        """Put the pieces of all layers together to a model."""
        num_layers = self._size("layers", most=MAX_LAYERS)
        placed = tuple(self._place(num_layers))
        groups = (group for each in placed for group in each.groups())
        declared = (group for row in self._row.pieces.values() for group in self._declare(row, num_layers))
        all_groups = (*self._before(), *groups, *declared, *self._after())
        adapted = self._row.adapted
        inventory = tuple(replace(each, is_adapted=True) if each.name in adapted else each for each in all_groups)
        _check_parts(inventory)
        experts = [each.piece for each in placed if isinstance(each.piece, pieces.Experts)]
        return Composition(
            model_type=self._model_type,
            num_layers=num_layers,
            hidden_size=self._size("hidden"),
            vocab_size=self._size("vocab"),
            num_experts=max((piece.experts for piece in experts), default=None),
            num_experts_per_token=self._size("experts_per_token") if experts else None,
            placed=placed,
            inventory=inventory,
            prediction=tuple(self._prediction(inventory, num_layers)),
            fused=self._row.fused,
            window=window_of(self._config, num_layers=num_layers, field=FIELD),
        )

    def _prediction(self, inventory: Inventory, num_layers: int) -> Iterator[TensorGroup]:
        """List the tensors of each module for multi-token prediction.

        A module has a layer like the last, a projection of [hidden; embedding] and three norms.

        Embedding and head are the model's own; published files may have further copies. Source: DeepSeek-AI 2024, arXiv
        2412.19437, section 2.2.
        """
        stated = self._config.get(self._row.prediction_modules)
        num_modules = _size_of(self._row.prediction_modules, stated, most=MAX_LAYERS)
        if not num_modules:
            return
        hidden, last = self._size("hidden"), (num_layers - 1,)
        own = (
            TensorGroup("projection", (hidden, 2 * hidden), hidden, layers=last),
            TensorGroup("module_norm", (hidden,), 1, layers=last, count=3),
        )
        for group in (*own, *inventory):
            if group.placement == "layers" and num_layers - 1 in group.layers:
                yield replace(
                    group,
                    name=f"mtp.{group.name}",
                    placement="last-stage",
                    layers=range(0),
                    count=group.count * num_modules,
                    is_of_other_layers=True,
                )

    def tower(self) -> Iterator[TensorGroup]:
        """List the tensors of a tower: its layers are not divided over stages, all are on the first."""
        num_layers = self._size("layers", most=MAX_LAYERS)
        in_layers = [group for each in self._place(num_layers) for group in each.groups()]
        in_layers += [group for row in self._row.pieces.values() for group in self._declare(row, num_layers)]
        for group in in_layers:
            count = group.count * len(group.layers)
            yield replace(group, placement="first-stage", layers=range(0), count=count, is_of_other_layers=True)
        for declared in self._row.outside:
            shape, count = tuple(map(self._size_from, declared.shape)), self._size_from(declared.count)
            if count and all(shape):
                is_matrix = not declared.is_table
                yield TensorGroup(declared.name, shape, 1, "first-stage", count=count, is_of_other_layers=is_matrix)

    def _place(self, num_layers: int) -> Iterator[PlacedPiece]:
        for row in self._row.pieces.values():
            if row.kind is None:
                continue
            kind = KINDS[row.kind]
            names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # every kind is a dataclass
            expressions = {name: row.fields.get(name, name) for name in names}
            for fields, layers in self._by_layers(row, expressions.values(), num_layers):
                yield PlacedPiece(kind(*fields), layers, row.prefix)

    def _declare(self, row: PieceRow, num_layers: int) -> Iterator[TensorGroup]:
        for declared in row.tensors:
            expressions = (declared.pieces, declared.count, *declared.shape)
            for (parts, count, *shape), layers in self._by_layers(row, expressions, num_layers):
                if count and parts and all(shape):
                    yield TensorGroup(declared.name, tuple(shape), parts, layers=layers, count=count)

    def _by_layers(
        self, row: PieceRow, expressions: Iterable[Expression], num_layers: int
    ) -> Iterator[tuple[tuple[int, ...], Sequence[int]]]:
        """Evaluate expressions to sizes, and group the layers by equal sizes."""
        texts = tuple(expressions)
        layers = self._layers_where(row.where, num_layers)
        if not layers or not any(map(self._depends_on_layer, texts)):
            if layers:
                yield tuple(map(self._size_from, texts)), layers
            return
        layers_of: dict[tuple[int, ...], list[int]] = {}
        for layer in layers:
            self._layer = layer
            layers_of.setdefault(tuple(map(self._size_from, texts)), []).append(layer)
        self._layer = None
        for sizes, some in layers_of.items():
            yield sizes, progression(some)

    def _layers_where(self, condition: Expression, num_layers: int) -> Sequence[int]:
        if not self._depends_on_layer(condition):
            return range(num_layers if self._value(condition) else 0)
        layers = []
        for self._layer in range(num_layers):
            if self._value(condition):
                layers.append(self._layer)
        self._layer = None
        return progression(layers)

    def _before(self) -> Iterator[TensorGroup]:
        vocab, width = self._size("vocab"), self._size("embedding_width")
        placement: Placement = "first-and-last-stage" if self._value("tied") else "first-stage"
        yield TensorGroup("embedding", (vocab, width), vocab, placement)
        if rows := self._size_from("positions"):
            yield TensorGroup("positions", (rows, width), 1, "first-stage")
        if count := self._size_from("embedding_norms"):
            yield TensorGroup("embedding_norm", (width,), 1, "first-stage", count=count)
        yield from self._outside("first-stage")

    def _after(self) -> Iterator[TensorGroup]:
        vocab, width = self._size("vocab"), self._size("embedding_width")
        if count := self._size_from("final_norms") * self._size_from("norm_tensors"):
            yield TensorGroup("final_norm", (self._size("hidden"),), 1, "last-stage", count=count)
        if not self._value("tied"):
            rows = self._size("head_rows")
            yield TensorGroup("output_head", (rows, width), rows, "last-stage")
        if count := self._size_from("head_bias"):
            yield TensorGroup("output_head.bias", (vocab,), vocab, "last-stage", count=count)
        yield from self._outside("last-stage")

    def _outside(self, placement: str) -> Iterator[TensorGroup]:
        for declared in self._row.outside:
            shape = tuple(map(self._size_from, declared.shape))
            parts, count = self._size_from(declared.pieces), self._size_from(declared.count)
            if declared.placement == placement and count and all(shape):
                yield TensorGroup(declared.name, shape, parts, declared.placement, count=count)

    def _size(self, name: str, *, most: int = MAX_SIZE) -> int:
        value = self._value(name)
        if value is None:
            (missing, *_) = sorted(names_in(str(self._row.values.get(name, name))) or {name})
            raise InvalidInput.of(f"{FIELD}.{missing}", "is required", value=None, remedy="add it")
        return _size_of(str(self._row.values.get(name, name)), value, least=1, most=most)

    def _size_from(self, expression: Expression) -> int:
        own = self._row.values.get(expression, expression) if isinstance(expression, str) else expression
        return _size_of(str(own), self._value(expression))

    def _value(self, expression: Expression) -> Any:
        if not isinstance(expression, str):
            return expression
        try:
            return evaluate(expression, self._value_named)
        except (TypeError, LookupError, ValueError, ArithmeticError):
            raise self._contradiction(expression) from None

    def _value_named(self, name: str) -> Any:
        """Return the value of a name: the row's, else the config's, else its class's default; None if there is none."""
        if name == "i":
            return self._layer
        own = self._row.values.get(name)
        if own is None or name in self._open:
            return self._value_stated(name)
        key = (name, self._layer if self._depends_on_layer(own) else None)
        if key not in self._known:
            self._open.add(name)
            self._known[key] = self._value(own)
            self._open.remove(name)
        return self._known[key]

    def _value_stated(self, name: str) -> Any:
        if name not in self._readable:
            return None
        if self._config.get(name) is not None:
            return self._config[name]
        for other, same in self._defaults.other_names.items():
            if same == name and self._config.get(other) is not None:
                return self._config[other]
        return None if name in self._config else self._defaults.values.get(name)

    def _depends_on_layer(self, expression: Expression) -> bool:
        return isinstance(expression, str) and "i" in self._config_names(expression)

    def _config_names(self, expression: str) -> frozenset[str]:
        """Return the names of the config that an expression reads, directly or through the row's values."""
        if expression not in self._read:
            self._read[expression] = frozenset(_read(expression, self._row.values))
        return self._read[expression]

    def _contradiction(self, expression: str) -> InvalidInput:
        names = sorted(self._config_names(expression) - {"i"})
        return InvalidInput.of(
            FIELD,
            f"must allow to compute {expression!r} for model_type {self._model_type}",
            value=None,
            remedy=f"give or correct {', '.join(names)}",
        )


def _read(expression: str, values: Mapping[str, Expression]) -> Iterator[str]:
    """List the config's names that an expression reads. A value that names itself means the config's name."""
    for name in names_in(expression):
        own = values.get(name)
        if own is None:
            yield name
        elif isinstance(own, str):
            yield from _read(own, {other: value for other, value in values.items() if other != name})


_OTHER_WAYS = "give model.num_parameters"


def _check_parts(inventory: Inventory) -> None:
    """Refuse heads or groups that do not divide their shared width."""
    for group in inventory:
        size = group.shape[group.cut]
        if not group.pieces or size % group.pieces:
            raise InvalidInput.of(
                FIELD,
                f"must give {group.pieces} equal parts of {group.name}, {size}",
                value=None,
                remedy="correct its heads, groups or widths",
            )


def _size_of(name: str, value: Any, *, least: int = 0, most: int = MAX_SIZE) -> int:
    """Read a size that a config gives, or a switch as 0 or 1."""
    if not isinstance(value, (int, float, type(None))) or (isinstance(value, float) and value % 1):
        raise InvalidInput.of(FIELD, f"must give a whole number as {name}", value=value, remedy="correct it")
    size = int(value or 0)
    if not least <= size <= most:
        raise InvalidInput.of(FIELD, f"must give {least} to {most} as {name}", value=size, remedy="correct it")
    return size
