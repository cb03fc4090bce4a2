"""The model that is trained: its architecture, and its tensors in groups of equal ones."""

from sizing.model.architecture import Architecture
from sizing.model.catalog import catalog
from sizing.model.inventory import TensorGroup, num_parameters
from sizing.model.listing import from_module
from sizing.model.model import Model, ResolvedModel

__all__ = ["Architecture", "Model", "ResolvedModel", "TensorGroup", "catalog", "from_module", "num_parameters"]
