"""The training state that must be saved: its parts, each in its dtype."""

from sizing.state.saved_state import StatePart
from sizing.state.training import Training

__all__ = ["StatePart", "Training"]
