"""From a config.json to the tensors of the model: the pieces of its model_type, in the layers that have them."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from sizing.errors import InvalidInput, Problem
from sizing.model.composed import pieces, recurrent_pieces
from sizing.model.composed.expressions import evaluated, names_in
from sizing.model.composed.model_types import Expression, ModelType, PieceRow, defaults, model_types
from sizing.model.inventory import Inventory, Placement, TensorGroup, progression
from sizing.model.layer_tensors import Tensor

Config = Mapping[str, JsonValue]
FIELD = "model.huggingface_config"
MAX_LAYERS = 10_000
"""As in Architecture."""
MAX_SIZE = 10**9
"""Of one dimension: far above any that was built, and small enough to count with."""

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
    """A piece and the layers that have it."""

    piece: pieces.Piece
    layers: Sequence[int]
    prefix: str

    def groups(self) -> Iterator[TensorGroup]:
        """Its tensors, in these layers."""
        for tensor in self.piece.tensors():
            if tensor.count and all(tensor.shape):
                yield _group(tensor, self.prefix, self.layers)


@dataclass(frozen=True)
class Composition:
    """A model as its config composes it. `vocab_size` are the rows of the embedding table."""

    model_type: str
    num_layers: int
    hidden_size: int
    vocab_size: int
    num_experts: int | None
    num_experts_per_token: int | None
    placed: tuple[PlacedPiece, ...]
    inventory: Inventory


def composed_types() -> tuple[str, ...]:
    """The model_types that are known here."""
    return tuple(model_types())


def composition_of(config: Config) -> Composition:
    """The model that a config of one of `composed_types` describes.

    Raises InvalidInput where a field is missing or does not fit the others.
    """
    return _composed(json.dumps(config))


@functools.lru_cache(maxsize=64)
def _composed(config: str) -> Composition:
    """The same of a config as text, so that one asked for again takes no time."""
    reading = _Reading(json.loads(config))
    reading.check()
    return reading.composition()


def check_model_class(config: Config, model_class: str) -> None:
    """Refuse a config of a class with another head, or of more than the language model."""
    classes = config.get("architectures")
    if classes and classes != [model_class]:
        raise InvalidInput.of(
            f"{FIELD}.architectures",
            f"must be ['{model_class}'] for this model_type",
            value=classes,
            remedy="give the config of the language model itself",
        )


class _Reading:
    """A config, read by the row of its model_type."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._model_type = str(config["model_type"])
        self._row: ModelType = model_types()[self._model_type]
        self._defaults = defaults()[self._model_type]
        self._readable = {*self._defaults.values, *self._defaults.required, *self._row.undeclared}
        self._known: dict[tuple[str, int | None], Any] = {}
        self._open: set[str] = set()
        self._layer: int | None = None

    def check(self) -> None:
        """Refuse what would be counted wrong."""
        check_model_class(self._config, str(self._row.model_class))
        missing = [name for name in self._defaults.required if self._stated(name) is None]
        if missing:
            raise InvalidInput(Problem(f"{FIELD}.{name}", "is required", "", "add it") for name in missing)
        for expression, reason in self._row.refused.items():
            if self._value(expression):
                raise InvalidInput.of(
                    FIELD, f"must not have {reason} to be counted here", value=None, remedy=_OTHER_WAYS
                )

    def composition(self) -> Composition:
        """The model."""
        num_layers = self._size("layers", most=MAX_LAYERS)
        placed = tuple(self._placed(num_layers))
        groups = (group for each in placed for group in each.groups())
        declared = (group for row in self._row.pieces.values() for group in self._declared(row, num_layers))
        inventory = (*self._before(), *groups, *declared, *self._after())
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
        )

    def _placed(self, num_layers: int) -> Iterator[PlacedPiece]:
        for row in self._row.pieces.values():
            if row.kind is None:
                continue
            kind = KINDS[row.kind]
            names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]  # every kind is a dataclass
            expressions = {name: row.fields.get(name, name) for name in names}
            for fields, layers in self._by_layers(row, expressions.values(), num_layers):
                yield PlacedPiece(kind(*fields), layers, row.prefix)

    def _declared(self, row: PieceRow, num_layers: int) -> Iterator[TensorGroup]:
        for declared in row.tensors:
            expressions = (declared.pieces, declared.count, *declared.shape)
            for (parts, count, *shape), layers in self._by_layers(row, expressions, num_layers):
                if count and parts and all(shape):
                    yield TensorGroup(declared.name, tuple(shape), parts, layers=layers, count=count)

    def _by_layers(
        self, row: PieceRow, expressions: Iterable[Expression], num_layers: int
    ) -> Iterator[tuple[tuple[int, ...], Sequence[int]]]:
        """The sizes that some expressions give, with the layers that have a piece with these."""
        texts = tuple(expressions)
        layers = self._layers_where(row.where, num_layers)
        if not layers or not any(map(self._depends_on_layer, texts)):
            if layers:
                yield tuple(map(self._sized, texts)), layers
            return
        found: dict[tuple[int, ...], list[int]] = {}
        for layer in layers:
            self._layer = layer
            found.setdefault(tuple(map(self._sized, texts)), []).append(layer)
        self._layer = None
        for values, some in found.items():
            yield values, progression(some)

    def _layers_where(self, condition: Expression, num_layers: int) -> Sequence[int]:
        if not self._depends_on_layer(condition):
            return range(num_layers if self._value(condition) else 0)
        found = []
        for self._layer in range(num_layers):
            if self._value(condition):
                found.append(self._layer)
        self._layer = None
        return progression(found)

    def _before(self) -> Iterator[TensorGroup]:
        vocab, width = self._size("vocab"), self._size("embedding_width")
        placement: Placement = "first-and-last-stage" if self._value("tied") else "first-stage"
        yield TensorGroup("embedding", (vocab, width), vocab, placement)
        if rows := self._sized("positions"):
            yield TensorGroup("positions", (rows, width), 1, "first-stage")
        if count := self._sized("embedding_norms"):
            yield TensorGroup("embedding_norm", (width,), 1, "first-stage", count=count)
        yield from self._outside("first-stage")

    def _after(self) -> Iterator[TensorGroup]:
        vocab, width = self._size("vocab"), self._size("embedding_width")
        if count := self._sized("final_norms") * self._sized("norm_tensors"):
            yield TensorGroup("final_norm", (self._size("hidden"),), 1, "last-stage", count=count)
        if not self._value("tied"):
            rows = self._size("head_rows")
            yield TensorGroup("output_head", (rows, width), rows, "last-stage")
        if count := self._sized("head_bias"):
            yield TensorGroup("output_head.bias", (vocab,), vocab, "last-stage", count=count)
        yield from self._outside("last-stage")

    def _outside(self, placement: str) -> Iterator[TensorGroup]:
        for declared in self._row.outside:
            shape = tuple(map(self._sized, declared.shape))
            parts, count = self._sized(declared.pieces), self._sized(declared.count)
            if declared.placement == placement and count and all(shape):
                yield TensorGroup(declared.name, shape, parts, declared.placement, count=count)

    def _size(self, name: str, *, most: int = MAX_SIZE) -> int:
        value = self._value(name)
        if value is None:
            (missing, *_) = sorted(names_in(str(self._row.values.get(name, name))) or {name})
            raise InvalidInput.of(f"{FIELD}.{missing}", "is required", value=None, remedy="add it")
        return _size_of(str(self._row.values.get(name, name)), value, least=1, most=most)

    def _sized(self, expression: Expression) -> int:
        own = self._row.values.get(expression, expression) if isinstance(expression, str) else expression
        return _size_of(str(own), self._value(expression))

    def _value(self, expression: Expression) -> Any:
        if not isinstance(expression, str):
            return expression
        try:
            return evaluated(expression, self._named)
        except (TypeError, LookupError, ValueError, ArithmeticError):
            raise self._contradiction(expression) from None

    def _named(self, name: str) -> Any:
        """The value of a name: of the row's values, of the config, or its class's default; None if nothing has it."""
        if name == "i":
            return self._layer
        own = self._row.values.get(name)
        if own is None or name in self._open:
            return self._stated(name)
        key = (name, self._layer if self._depends_on_layer(own) else None)
        if key not in self._known:
            self._open.add(name)
            self._known[key] = self._value(own)
            self._open.remove(name)
        return self._known[key]

    def _stated(self, name: str) -> Any:
        if name not in self._readable:
            return None
        if self._config.get(name) is not None:
            return self._config[name]
        for other, same in self._defaults.other_names.items():
            if same == name and self._config.get(other) is not None:
                return self._config[other]
        return None if name in self._config else self._defaults.values.get(name)

    def _depends_on_layer(self, expression: Expression) -> bool:
        return isinstance(expression, str) and _depends_on_layer(self._model_type, expression)

    def _contradiction(self, expression: str) -> InvalidInput:
        names = sorted(_config_names(self._model_type, expression) - {"i"})
        return InvalidInput.of(
            FIELD,
            f"must allow to compute {expression!r} for model_type {self._model_type}",
            value=None,
            remedy=f"give or correct {', '.join(names)}",
        )


@functools.cache
def _depends_on_layer(model_type: str, expression: str) -> bool:
    """Whether an expression reads the layer, also by way of the row's values."""
    return "i" in _config_names(model_type, expression)


@functools.cache
def _config_names(model_type: str, expression: str) -> frozenset[str]:
    """The names of the config that an expression reads, also by way of the row's values."""
    return frozenset(_read(expression, model_types()[model_type].values))


def _read(expression: str, values: Mapping[str, Expression]) -> Iterator[str]:
    """What it reads of the config; a value that names itself means the config's name."""
    for name in names_in(expression):
        own = values.get(name)
        if own is None:
            yield name
        elif isinstance(own, str):
            yield from _read(own, {other: value for other, value in values.items() if other != name})


_OTHER_WAYS = "give model.num_parameters"


def _group(tensor: Tensor, prefix: str, layers: Sequence[int]) -> TensorGroup:
    return TensorGroup(
        f"{prefix}{tensor.name}",
        tensor.shape,
        tensor.pieces,
        layers=layers,
        count=tensor.count,
        experts=tensor.experts,
        cut=tensor.cut,
    )


def _check_parts(inventory: Inventory) -> None:
    """Refuse heads or groups that do not divide the width that they share."""
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
    """A size, or a switch."""
    if not isinstance(value, (int, float, type(None))) or (isinstance(value, float) and value % 1):
        raise InvalidInput.of(FIELD, f"must give a whole number as {name}", value=value, remedy="correct it")
    size = int(value or 0)
    if not least <= size <= most:
        raise InvalidInput.of(FIELD, f"must give {least} to {most} as {name}", value=size, remedy="correct it")
    return size
