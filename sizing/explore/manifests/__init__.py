"""Every file of a checkpoint: which rank on which node writes it."""
