"""Models that a Hugging Face config.json composes of pieces, layer by layer: attention, experts, state spaces."""

from sizing.model.composed.composition import (
    Composition,
    check_model_class,
    composed_types,
    composition_of,
    tower_of,
)
from sizing.model.composed.model_types import defaults, uncounted_types
from sizing.model.composed.pieces import dense_pieces, sparse_pieces

__all__ = [
    "Composition",
    "check_model_class",
    "composed_types",
    "composition_of",
    "defaults",
    "dense_pieces",
    "sparse_pieces",
    "tower_of",
    "uncounted_types",
]
