"""Read any list of tensors as a model: names and shapes give roles by rules, and roles give an inventory."""

from sizing.model.listed.grouping import FlatTensor, entries_of
from sizing.model.listed.listed_model import ListedModel, listed_model
from sizing.model.listed.roled import Heads
from sizing.model.listed.roles import Role
from sizing.model.listed.tensor_entry import MAX_ENTRIES, TensorEntry

__all__ = ["MAX_ENTRIES", "FlatTensor", "Heads", "ListedModel", "Role", "TensorEntry", "entries_of", "listed_model"]
