"""Several places to save to: how long each takes, how often it is saved to, what it survives and holds."""
