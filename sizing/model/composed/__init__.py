"""Models that a Hugging Face config.json composes of pieces: attention, experts, state spaces, layer by layer."""

from sizing.model.composed.architecture_pieces import dense_pieces, sparse_pieces
from sizing.model.composed.composition import Composition, check_model_class, composed_types, composition_of
from sizing.model.composed.model_types import defaults, uncounted_types

__all__ = [
    "Composition",
    "check_model_class",
    "composed_types",
    "composition_of",
    "defaults",
    "dense_pieces",
    "sparse_pieces",
    "uncounted_types",
]
