"""Models that a Hugging Face config.json composes of pieces: attention, experts, state spaces, in layers by a pattern."""

from sizing.model.composed.composition import Composition, composed_types, composition_of

__all__ = ["Composition", "composed_types", "composition_of"]
