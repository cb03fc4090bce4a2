"""The model as its tensor ranks hold it: the vocabulary padded to what they divide."""

from __future__ import annotations

from sizing.layout.parallelism import Parallelism
from sizing.model import Model, ResolvedModel
from sizing.model.model import resolve
from sizing.state import Training


def resolved_model(model: Model, training: Training, parallelism: Parallelism) -> ResolvedModel:
    """The model of a scenario, its vocabulary padded to `vocabulary_padding_multiple` x tensor if that is given.

    Raises InvalidInput where the catalog does not know the preset or the config is not understood.
    """
    padding = training.vocabulary_padding_multiple
    return resolve(model, vocabulary_multiple=None if padding is None else padding * parallelism.tensor)
