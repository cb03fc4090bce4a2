"""Which layers to put on which kind of node of an unlike cluster, and who writes what then."""
