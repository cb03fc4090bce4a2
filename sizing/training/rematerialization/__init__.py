"""Rematerialization: which activations to keep and which to compute again, within a memory, at the least time."""
