"""How many steps a run takes with its batch, and what that means for its checkpoints."""
