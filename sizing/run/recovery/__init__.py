"""What follows a failure: one object per strategy, in a registry."""
