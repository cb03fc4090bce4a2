"""One configuration as data before the clock: what it needs, and whether that fits."""
