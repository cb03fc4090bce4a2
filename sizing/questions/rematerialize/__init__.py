"""Which layers to compute again so that a batch fits."""
