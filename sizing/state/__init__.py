"""What must be saved: which parts of the training state, in which dtype."""

from sizing.state.saved_state import StatePart, resident_parts, saved_parts
from sizing.state.training import Training

__all__ = ["StatePart", "Training", "resident_parts", "saved_parts"]
