"""What is asked: the flags, validated, and the request that all ranks agree on."""
